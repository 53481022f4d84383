/* Completions for bash, zsh and fish. Each shell gets a script that needs nothing but the shell. */
#include "cli/help.h"

#include <string.h>

static bool offers_models(const struct cli_option_row *row) { return row->id == OPT_MODEL; }
static bool offers_files(const struct cli_option_row *row) { return row->kind == CLI_PATH && !offers_models(row); }
/* The word of the command is the model. */
static bool word_is_model(enum cli_command command)
{
    return cli_takes(command, OPT_MODEL) && cli_command_rows[command].words_max == 1;
}

/* Prints "a b c" of "a|b|c". */
static void print_choices(FILE *out, const char *choices)
{
    for (const char *p = choices; *p; p++) fputc(*p == '|' ? ' ' : *p, out);
}

/* Inside single quotes of a shell. fish alone has escapes there. */
static void print_quoted(FILE *out, const char *text, bool fish)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs(fish ? "\\'" : "'\\''", out);
        else if (*text == '\\' && fish)
            fputs("\\\\", out);
        else
            fputc(*text, out);
    }
}

static void print_commands(FILE *out)
{
    for (unsigned i = 0; i < CLI_COMMANDS; i++) fprintf(out, "%s%s", i ? " " : "", cli_command_rows[i].name);
}

/* ---- bash ---- */

/* case patterns "--model|-m" for the options of a command that `want` selects; false: none. */
static bool bash_patterns(FILE *out, enum cli_command command, bool (*want)(const struct cli_option_row *row))
{
    bool any = false;
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        if (!cli_takes(command, row->id) || !want(row)) continue;
        fprintf(out, "%s--%s", any ? "|" : "            ", row->name);
        if (row->letter) fprintf(out, "|-%c", row->letter);
        any = true;
    }
    return any;
}

static bool takes_free_value(const struct cli_option_row *row)
{
    return row->kind != CLI_FLAG && row->kind != CLI_PATH && !row->choices;
}

static void bash_command(FILE *out, enum cli_command command)
{
    const struct cli_command_row *c = &cli_command_rows[command];
    fprintf(out, "    %s)\n        case \"$prev\" in\n", c->name);
    if (bash_patterns(out, command, offers_files))
        fputs(")\n                COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", out);
    if (bash_patterns(out, command, offers_models)) fputs(")\n                _sluice_models; return ;;\n", out);
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        if (!cli_takes(command, row->id) || !row->choices) continue;
        fprintf(out, "            --%s", row->name);
        if (row->letter) fprintf(out, "|-%c", row->letter);
        fputs(")\n                COMPREPLY=($(compgen -W \"", out);
        print_choices(out, row->choices);
        fputs("\" -- \"$cur\")); return ;;\n", out);
    }
    if (bash_patterns(out, command, takes_free_value)) fputs(")\n                return ;;\n", out);
    fputs("        esac\n        opts=\"", out);
    const char *space = "";
    for (unsigned i = 0; i < OPT_COUNT; i++)
        if (cli_takes(command, (enum cli_option)i)) {
            fprintf(out, "%s--%s", space, cli_option_rows[i].name);
            space = " ";
        }
    fputs("\"\n", out);
    if (strcmp(c->words_complete, "files") == 0)
        fprintf(out, "        words=%s\n", word_is_model(command) ? "models" : "files");
    if (strcmp(c->words_complete, "commands") == 0) fputs("        words=commands\n", out);
    fputs("        ;;\n", out);
}

static void completion_bash(FILE *out)
{
    fputs("# bash completion for sluice. Made by 'sluice help --completion bash'; do not edit.\n"
          "_sluice_models()\n{\n"
          "    COMPREPLY=($(compgen -f -X '!*.gguf' -- \"$cur\") $(compgen -d -- \"$cur\"))\n}\n"
          "_sluice()\n{\n    local cur prev cmd opts= words= commands=\"",
          out);
    print_commands(out);
    fputs("\"\n"
          "    cur=${COMP_WORDS[COMP_CWORD]}\n"
          "    prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    cmd=${COMP_WORDS[1]}\n"
          "    COMPREPLY=()\n"
          "    # bash splits words at '=' and ':'\n"
          "    if [[ $cur == \"=\" ]]; then cur=\n"
          "    elif [[ $prev == \"=\" ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    case \"$cmd\" in\n",
          out);
    for (unsigned i = 0; i < CLI_COMMANDS; i++) bash_command(out, (enum cli_command)i);
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\"))\n"
          "    elif [[ $words == models ]]; then _sluice_models\n"
          "    elif [[ $words == files ]]; then COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "    elif [[ $words == commands ]]; then COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\")); fi\n"
          "}\n"
          "complete -o filenames -F _sluice sluice\n",
          out);
}

/* ---- zsh ---- */

/* _arguments takes "[text]" and ":message:action": brackets and colons in the texts need a backslash. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static const char zsh_models[] = "_files -g \"*.gguf(-.)\"";

static void zsh_option(FILE *out, const struct cli_option_row *row)
{
    fputs("                '", out);
    if (row->repeats)
        fputc('*', out);
    else if (row->letter)
        fprintf(out, "(-%c --%s)", row->letter, row->name);
    if (row->letter) fprintf(out, "'{-%c,--%s%s}'", row->letter, row->name, row->kind == CLI_FLAG ? "" : "=");
    if (!row->letter) fprintf(out, "--%s%s", row->name, row->kind == CLI_FLAG ? "" : "=");
    fputc('[', out);
    zsh_text(out, row->help);
    fputc(']', out);
    if (row->kind != CLI_FLAG) {
        fprintf(out, ":%s:", row->value_name);
        if (offers_files(row)) fputs("_files", out);
        if (offers_models(row)) fputs(zsh_models, out);
        if (row->choices) {
            fputc('(', out);
            for (const char *p = row->choices; *p; p++)
                if (*p == '|')
                    fputc(' ', out);
                else if (*p == ':')
                    fputs("\\:", out);
                else
                    fputc(*p, out);
            fputc(')', out);
        }
    }
    fputs("' \\\n", out);
}

static void completion_zsh(FILE *out)
{
    fputs("#compdef sluice\n# zsh completion for sluice. Made by 'sluice help --completion zsh'; do not edit.\n"
          "_sluice()\n{\n    local -a commands\n    commands=(\n",
          out);
    for (unsigned i = 0; i < CLI_COMMANDS; i++) {
        fprintf(out, "        '%s:", cli_command_rows[i].name);
        zsh_text(out, cli_command_rows[i].summary);
        fputs("'\n", out);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
          out);
    for (unsigned i = 0; i < CLI_COMMANDS; i++) {
        fprintf(out, "        %s)\n            _arguments -s \\\n", cli_command_rows[i].name);
        for (unsigned j = 0; j < OPT_COUNT; j++)
            if (cli_takes((enum cli_command)i, (enum cli_option)j)) zsh_option(out, &cli_option_rows[j]);
        if (strcmp(cli_command_rows[i].words_complete, "files") == 0)
            fprintf(out, "                '*:file:%s'\n", word_is_model((enum cli_command)i) ? zsh_models : "_files");
        else if (strcmp(cli_command_rows[i].words_complete, "commands") == 0) {
            fputs("                '1:command:(", out);
            print_commands(out);
            fputs(")'\n", out);
        } else
            fputs("                && return 0\n", out);
        fputs("            ;;\n", out);
    }
    fputs("    esac\n}\n\nif [[ $funcstack[1] == _sluice ]]; then _sluice \"$@\"; else compdef _sluice sluice; fi\n",
          out);
}

/* ---- fish ---- */

/* Folders, and of the files the models. */
static const char fish_models[] = "(__sluice_models)";

static void fish_option(FILE *out, const struct cli_option_row *row)
{
    bool all = true;
    for (unsigned i = 0; i < CLI_COMMANDS; i++) all = all && cli_takes((enum cli_command)i, row->id);
    fputs("complete -c sluice", out);
    if (!all) {
        fputs(" -n '__fish_seen_subcommand_from", out);
        for (unsigned i = 0; i < CLI_COMMANDS; i++)
            if (cli_takes((enum cli_command)i, row->id)) fprintf(out, " %s", cli_command_rows[i].name);
        fputs("'", out);
    }
    if (row->letter) fprintf(out, " -s %c", row->letter);
    fprintf(out, " -l %s", row->name);
    if (row->kind != CLI_FLAG) fputs(offers_files(row) ? " -r -F" : " -x", out);
    if (offers_models(row)) fprintf(out, " -a '%s'", fish_models);
    if (row->choices) {
        fputs(" -a '", out);
        print_choices(out, row->choices);
        fputs("'", out);
    }
    fputs(" -d '", out);
    print_quoted(out, row->help, true);
    fputs("'\n", out);
}

static void completion_fish(FILE *out)
{
    fputs("# fish completion for sluice. Made by 'sluice help --completion fish'; do not edit.\n"
          "function __sluice_models\n"
          "    for path in (__fish_complete_path (commandline -ct))\n"
          "        string match -q -r '(/|\\.gguf)(\\t.*)?$' -- $path; and echo $path\n"
          "    end\n"
          "end\n"
          "complete -c sluice -f\n",
          out);
    for (unsigned i = 0; i < CLI_COMMANDS; i++) {
        fprintf(out, "complete -c sluice -n __fish_use_subcommand -a %s -d '", cli_command_rows[i].name);
        print_quoted(out, cli_command_rows[i].summary, true);
        fputs("'\n", out);
        if (strcmp(cli_command_rows[i].words_complete, "files") == 0)
            fprintf(out, "complete -c sluice -n '__fish_seen_subcommand_from %s' %s%s%s\n", cli_command_rows[i].name,
                    word_is_model((enum cli_command)i) ? "-k -a '" : "-F",
                    word_is_model((enum cli_command)i) ? fish_models : "",
                    word_is_model((enum cli_command)i) ? "'" : "");
    }
    fputs("complete -c sluice -n '__fish_seen_subcommand_from help' -a '", out);
    print_commands(out);
    fputs("'\n", out);
    for (unsigned i = 0; i < OPT_COUNT; i++) fish_option(out, &cli_option_rows[i]);
}

bool help_completion(FILE *out, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        completion_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        completion_zsh(out);
    else if (strcmp(shell, "fish") == 0)
        completion_fish(out);
    else
        return false;
    return true;
}
