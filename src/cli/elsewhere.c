/* Names of llama.cpp's and ollama's options, commands and orders of a chat, and what is in their place. Names that
 * Sluice has too are not here. docs/LLAMA.md says it at more length. */
#include "cli/elsewhere.h"

#include <stddef.h>
#include <string.h>

struct elsewhere {
    const char *names; /* with a space before and behind each */
    const char *hint;
};

static const char no_gpu[] =
    "there is none: Sluice computes on processors; --memory SIZE says how much memory it may have";
static const char no_store[] = "Sluice keeps no store of models: give it the path of a GGUF file";

static const struct elsewhere options[] = {
    {" --ctx-size ", "here it is --ctx N (-c)"},
    {" --predict --n-predict --num-predict --max-new-tokens ", "here it is --max-tokens N (-n)"},
    {" -np --parallel --n-parallel ", "here it is --sessions N (of serve); each has a context of --ctx"},
    {" --temperature ", "here it is --temp T"},
    {" -j --json-schema -jf --json-schema-file --format ", "here it is --schema FILE (of run and chat); in a request "
                                                           "response_format"},
    {" -ctk --cache-type-k -ctv --cache-type-v ", "here it is --kv-type f16, q8_0 or f32, for keys and values"},
    {" -b --batch-size -ub --ubatch-size ", "here it is --chunk N, which is chosen unless it is given"},
    {" -tb --threads-batch ", "there is none: --threads N (-t) is for prompts too"},
    {" -sys --system-prompt ", "here it is --system TEXT"},
    {" -r --reverse-prompt ", "here it is --stop TEXT (of run and chat; in a request stop)"},
    {" --repeat-last-n ", "here it is --repeat-last N"},
    {" -hf -hfr -hff --hf-repo --hf-file -hft --hf-token -mu --model-url ",
     "there is none: Sluice does not download; fetch the GGUF file and give its path with -m"},
    {" -ngl --gpu-layers --n-gpu-layers -ncmoe --n-cpu-moe -cmoe --cpu-moe -ot --override-tensor -dev --device -sm "
     "--split-mode -ts --tensor-split -mg --main-gpu -kvo --kv-offload -nkvo --no-kv-offload -fa --flash-attn --gpu ",
     no_gpu},
    {" --no-mmap --mmap --direct-io -dio ",
     "leave it out: nothing is mapped, and reads are direct where the system allows"},
    {" --mlock ", "here it is --lock all"},
    {" -cnv --conversation ", "'sluice chat' is a conversation; 'sluice run --chat' answers one message"},
    {" -no-cnv --no-conversation ", "leave it out: 'sluice run' continues a text, 'sluice chat' is a conversation"},
    {" -st --single-turn ", "'sluice run --chat -p TEXT' answers one message"},
    {" --jinja ", "leave it out: the file's own chat template is always used"},
    {" --chat-template ", "there is none by name: the file's own is used, or --chat-template-file FILE"},
    {" -a ", "here it is --alias NAME (of serve)"},
    {" --metrics --slots --props ", "leave it out: /metrics, /slots and /props are always there"},
    {" -cb --cont-batching ", "leave it out: it is always so"},
    {" -nocb --no-cont-batching ", "there is none: --sessions 1 answers one request after another"},
    {" -i --interactive -if --interactive-first ", "'sluice chat' is a conversation"},
    {" -co --color ", "leave it out: nothing is coloured"},
    {" -e --escape --no-escape ", "leave it out: texts are taken as they are; a shell has $'...' for line breaks"},
    {" --ignore-eos ", "there is none; --logit-bias ID=-100 keeps the model from its end token ID"},
    {" -l ", "here it is --logit-bias ID=VALUE"},
    {" -pg ", "there is none: -n tokens are always decoded behind each prompt of -p"},
    {" --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor "
     "--yarn-attn-factor ",
     "leave it out: positions are scaled as the file says"},
    {" --slot-save-path --prompt-cache --cache-ram ", "here it is --kv-dir DIRECTORY, with --prefix-memory SIZE"},
    {" --api-key ", "here it is --api-key-file FILE: a key among the arguments can be read by others"},
    {" --grammar --grammar-file ", "there is none: --schema FILE takes a JSON Schema"},
    {" --mirostat --mirostat-lr --mirostat-ent --samplers --sampling-seq --dry-multiplier --dry-base "
     "--dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker --xtc-probability --xtc-threshold --typical "
     "--top-nsigma --top-n-sigma --dynatemp-range --dynatemp-exp ",
     "there is none: 'sluice help run' lists what there is under Sampling"},
    {" -md --model-draft --draft --draft-n --draft-max --draft-min --draft-p-min -cd "
     "--ctx-size-draft -ngld --gpu-layers-draft -devd --device-draft -td --threads-draft --lora --lora-scaled "
     "--control-vector --control-vector-scaled --control-vector-layer-range -mm --mmproj -mmu --mmproj-url --image "
     "--audio "
     "--embeddings --embedding --pooling --rerank --reranking -mv --model-vocoder ",
     "Sluice has no such thing: text models alone, without drafts "
     "and adapters"},
    {" --warmup ",
     "leave it out: there is no empty run beforehand; --hotlist FILE loads experts before the first token"},
    {" --no-warmup ", "here it is --cold: load no expert before it is asked for"},
    {" --verbose-prompt ", "'sluice tokenize -m FILE -p TEXT' prints the ids of a text"},
    {" --log-disable ", "here it is --quiet (-q)"},
    {" -lv --verbosity --log-verbosity ", "here it is --quiet (-q) or --verbose (-v)"},
    {" --log-file ", "there is none: 2> FILE keeps what goes to standard error"},
    {" --log-colors --log-prefix --log-timestamps ", "leave it out: lines on standard error are plain"},
    {" --perf --show-timings ", "leave it out: speed and cache hits are told at the end, unless --quiet (-q) is given"},
    {" --no-perf --no-show-timings ", "here it is --quiet (-q), which leaves out the notes too"},
    {" -ptc --print-token-count ", "leave it out: tokens are counted at the end, in a chat by /stats"},
    {" --no-display-prompt ", "leave it out: standard output has the answer alone"},
    {" --display-prompt ", "there is none: standard output has the answer alone"},
    {" -sp ", "there is none: special tokens are not printed; --special recognises them in the prompt"},
    {" --version ", "'sluice version' prints it"},
    {" --offline ", "leave it out: Sluice does not download"},
    {" --simple-io ", "leave it out: lines are edited on a terminal alone"},
    {" -mli --multiline-input ", "leave it out: in a chat a backslash at the end of a line continues the message"},
    {" -sysf --system-prompt-file ", "here it is --system TEXT: --system \"$(cat FILE)\""},
    {" --in-prefix --in-prefix-bos --in-suffix --chat-template-prefix --chat-template-suffix ",
     "there is none: the chat template says what stands around a message; --chat-template-file FILE takes another"},
    {" --chat-template-kwargs ", "there is none: a request to serve has the field chat_template_kwargs"},
    {" --reasoning-budget -rea --reasoning ", "there is none: it is the request's: chat_template_kwargs "
                                              "{\"enable_thinking\": false}, or thinking.budget_tokens of "
                                              "/v1/messages"},
    {" --reasoning-format ", "leave it out: serve gives reasoning apart from the answer, as reasoning_content"},
    {" --keep --context-shift --no-context-shift ",
     "leave it out: nothing is dropped from a full context, which ends the answer; --ctx N (-c) is its length"},
    {" --cache-reuse ",
     "leave it out: what begins as before is not computed again (--prefix-memory, --kv-dir), what has "
     "moved is"},
    {" --swa-full ", "leave it out: beginnings of texts are kept for models with windows too (--prefix-memory)"},
    {" -kvu --kv-unified -no-kvu --no-kv-unified ",
     "leave it out: each of --sessions has a context of --ctx of its own"},
    {" -dt --defrag-thold ", "leave it out: the KV cache has no gaps"},
    {" -fit --fit -fitt --fit-target -fitc --fit-ctx ", "leave it out: it always fits into --memory SIZE, and --ctx is "
                                                        "chosen unless it is given; 'sluice plan' shows how"},
    {" --override-kv ", "there is none: values are the file's, but --pre NAME for the pre-tokenizer"},
    {" --check-tensors ", "here it is --verify; 'sluice verify' compares a whole file with its checksums"},
    {" --numa ", "leave it out: memory is spread over all nodes, unless numactl says otherwise"},
    {" -C --cpu-mask -Cr --cpu-range --cpu-strict -Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch ",
     "there is none: taskset says which processors a process may use, and --threads N (-t) how many"},
    {" --prio --prio-batch ", "there is none: nice runs a program with another priority"},
    {" --poll --poll-batch ", "leave it out: threads wait awake for a moment, then they sleep"},
    {" --list-devices ", "there are none: Sluice computes on processors; 'sluice doctor' shows this machine"},
    {" --rpc ", "there is none: Sluice computes on one machine"},
    {" -to --timeout ",
     "of serve, by what is waited for: --timeout-receive, --timeout-idle or --timeout-stall, each in seconds"},
    {" --webui --no-webui ", "leave it out: the page is always there"},
    {" --ssl-key-file --ssl-cert-file ", "there is none: a proxy in front of serve gives it TLS"},
    {" --path --api-prefix ", "there is none: serve has its own page at /; a proxy in front of it can have more"},
    {" --models-dir --models-preset --models-max --models-autoload --no-models-autoload ",
     "there is none: a process serves one model, by its path"},
    {" --threads-http ", "leave it out: one thread answers all connections"},
};

static const struct elsewhere commands[] = {
    {" convert convert_hf_to_gguf create ",
     "Sluice reads GGUF and converts nothing else: llama.cpp's convert_hf_to_gguf.py makes it of a Hugging Face "
     "checkpoint; 'sluice quantize' writes other formats"},
    {" pull push download ", "Sluice does not download: fetch the GGUF file, and 'sluice run -m FILE'"},
    {" list ls rm cp ", no_store},
    {" ps stop ", "a process serves one model: 'sluice serve -m FILE' runs until Ctrl-C or SIGTERM"},
    {" show info ", "here it is 'sluice inspect FILE'"},
    {" cli llama-cli llama-run llama-simple-chat ",
     "here it is 'sluice chat MODEL', or 'sluice run MODEL -p TEXT' for one text"},
    {" llama-completion llama-simple ", "here it is 'sluice run MODEL -p TEXT'"},
    {" completion completions ",
     "'sluice help --completion bash', or zsh or fish, prints those of a shell; 'sluice run MODEL -p TEXT' continues a "
     "text"},
    {" man manual manpage ", "'sluice help --man' prints the manual page"},
    {" server start llama-server ", "here it is 'sluice serve MODEL'"},
    {" llama-bench ", "here it is 'sluice bench MODEL'"},
    {" llama-perplexity ", "here it is 'sluice perplexity -m FILE -f TEXT'"},
    {" llama-quantize ", "here it is 'sluice quantize IN OUT --type TYPE'"},
    {" llama-tokenize ", "here it is 'sluice tokenize -m FILE -p TEXT'"},
    {" llama-gguf llama-gguf-hash gguf-dump gguf_dump.py ",
     "here it is 'sluice inspect FILE', and 'sluice checksum -m FILE' for checksums"},
    {" embed embedding rerank llama-embedding ", "Sluice has no such thing: it writes text"},
};

static const struct elsewhere orders[] = {
    {" /clear /new ", "here it is /reset"},
    {" /bye /q /x ", "here it is /quit"},
    {" /? /h ", "here it is /help"},
    {" /regen /retry ", "there is none: the up key brings a message back, to be put again"},
    {" /set /system ", "there is none: options, as --system TEXT, are given when a chat begins"},
    {" /show /info ", "here it is /stats; 'sluice inspect FILE' shows a model"},
    {" /load /model ", "there is none: 'sluice chat MODEL' talks with another model"},
    {" /read /file /glob ", "there is none: 'sluice run MODEL --chat -f FILE' asks with the text of a file"},
    {" /image /audio ", "there is none: texts alone"},
};

static const char *find(const struct elsewhere *rows, size_t n, const char *word, size_t bytes)
{
    char name[40];
    if (!bytes || bytes + 3 > sizeof name || memchr(word, ' ', bytes)) return NULL;
    name[0] = name[bytes + 1] = ' ';
    memcpy(name + 1, word, bytes);
    name[bytes + 2] = '\0';
    for (size_t i = 0; i < n; i++)
        if (strstr(rows[i].names, name)) return rows[i].hint;
    return NULL;
}

const char *elsewhere_option(const char *word)
{
    return find(options, sizeof options / sizeof *options, word, strcspn(word, "="));
}

const char *elsewhere_command(const char *word)
{
    return find(commands, sizeof commands / sizeof *commands, word, strlen(word));
}

const char *elsewhere_order(const char *line)
{
    return find(orders, sizeof orders / sizeof *orders, line, strcspn(line, " "));
}
