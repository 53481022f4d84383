#include "toolcall_cases.h"

#define SPAN "日本 Ω ä"
#define CASE(the_name, the_family, the_input, ...)                                          \
    {                                                                                       \
        .name = the_name, .family = the_family, .input = the_input, .expected = __VA_ARGS__ \
    }

const struct toolcall_case toolcall_cases[] = {
    /* ---- reasoning and text ---- */
    CASE("text", "plain", " Hello,\n <b>" SPAN "</b> <think>\n", "T( Hello,\n <b>" SPAN "</b> <think>\n)"),
    CASE("empty", "hermes", "", ""),
    CASE("blank", "hermes", " \n", "T( \n)"),
    CASE("thought", "plain", "\n<think>\nΩ first\n\nthen\n</think>\n\nAnswer </think>\n",
         "R(Ω first\n\nthen)T(Answer </think>\n)"),
    CASE("thought opened", "plain", "Ω first</thin</think>Answer", "R(Ω first</thin)T(Answer)", .opened = true),
    CASE("thought twice opened", "plain", "\n<think>Ω</think>Answer", "R(Ω)T(Answer)", .opened = true),
    CASE("thought empty", "hermes", "<think>\n\n</think>\n\nAnswer", "T(Answer)"),
    CASE("thought closed at once", "glm", "</think>Answer", "T(Answer)"),
    CASE("thought in brackets", "mistral", "[THINK]Ω [hm][/THINK]Answer[TOOL_CALLS]f[ARGS]{}",
         "R(Ω [hm])T(Answer)C(f||{})", .brackets = true),
    CASE("thought cut", "hermes", "<think>Ω </thi", "R(Ω </thi)"),
    CASE("no tools", "hermes", "a <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
         "T(a <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>)", .no_tools = true),
    /* ---- hermes ---- */
    CASE("one", "hermes",
         "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"Ω </tool_call> "
         "\\\"x\\\"\"}}\n</tool_call>",
         "T(Let me see.)C(f||{\"s\": \"Ω </tool_call> \\\"x\\\"\"})"),
    CASE("two and text", "hermes",
         "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": "
         "{\"a\": [1, {\"b\": "
         "-2.5e3}]}}\n</tool_call>\n Ω after",
         "C(f||{})C(g||{\"a\": [1, {\"b\": -2.5e3}]})T(Ω after)"),
    CASE("thought and call", "hermes",
         "<think>\nhm <tool_call> Ω\n</think>\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "R(hm <tool_call> Ω)C(f||{})"),
    CASE("arguments first", "hermes", "<tool_call>{\"arguments\": {\"a\": \"Ω\"}, \"name\": \"f\"}</tool_call>",
         "C(f||{\"a\": \"Ω\"})"),
    CASE("arguments as text", "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
         "C(f||{\"a\": 1})"),
    CASE("no arguments", "hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", "C(f||{})"),
    CASE("null arguments", "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "C(f||{})"),
    CASE("wrapped", "hermes",
         "<tool_call>{\"type\": \"function\", \"id\": \"x1\", \"function\": {\"name\": \"f\", \"arguments\": "
         "{}}}</tool_call>",
         "C(f|x1|{})"),
    CASE("list", "hermes",
         "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call>!",
         "C(f||{})C(g||{})T(!)"),
    CASE("raw line break", "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"a\nΩ\"}}</tool_call>",
         "C(f||{\"s\": \"a\\nΩ\"})"),
    CASE("brace missing", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}\n</tool_call>Ω",
         "C(f||{\"a\": 1})T(Ω)"),
    CASE("end missing", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "C(f||{\"a\": 1})"),
    CASE("cut in arguments", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"Ω", "c(f||{\"a\": \"Ω)",
         "T(<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"Ω)"),
    CASE("cut in name", "hermes", "ok\n<tool_call>\n{\"name\": \"f", "T(ok\n<tool_call>\n{\"name\": \"f)"),
    CASE("no JSON", "hermes", "<tool_call>\nΩ f(x)</tool_call>", "T(<tool_call>\nΩ f(x)</tool_call>)"),
    CASE("no JSON, then a call", "hermes", "<tool_call>{\"name\": Ω<tool_call>{\"name\": \"f\"}</tool_call>",
         "T(<tool_call>{\"name\": Ω)C(f||{})"),
    CASE("wrong in arguments", "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": Ω}}</tool_call>",
         "c(f||{\"a\": )T(Ω}}</tool_call>)", "T(<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": Ω}}</tool_call>)"),
    CASE("wrong behind arguments", "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}, Ω</tool_call>",
         "C(f||{})T(, Ω</tool_call>)"),
    CASE("unknown key", "hermes", "<tool_call>{\"name\": \"f\", \"input\": {\"Ω\": 1}}</tool_call>",
         "T(<tool_call>{\"name\": \"f\", \"input\": {\"Ω\": 1}}</tool_call>)"),
    CASE("name is no name", "hermes", "<tool_call>{\"name\": \"f x\", \"arguments\": {}}</tool_call>",
         "T(<tool_call>{\"name\": \"f x\", \"arguments\": {}}</tool_call>)"),
    CASE("arguments are no object", "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": [\"Ω\"]}</tool_call>",
         "T(<tool_call>{\"name\": \"f\", \"arguments\": [\"Ω\"]}</tool_call>)"),
    CASE("marks that are none", "hermes", "a <tool_ca <tool_callΩ> b <<tool_call>{\"name\": \"f\"}</tool_call>",
         "T(a <tool_ca <tool_callΩ> b <)C(f||{})"),
    CASE("nemotron", "nemotron",
         "Sure.<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": "
         "{}}]</TOOLCALL>",
         "T(Sure.)C(f||{\"a\": 1})C(g||{})"),
    /* ---- llama3 ---- */
    CASE("bare", "llama3", "{\"name\": \"f\", \"parameters\": {\"s\": \"Ω\"}}", "C(f||{\"s\": \"Ω\"})"),
    CASE("bare twice", "llama3", " {\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
         "C(f||{})C(g||{})"),
    CASE("bare, unknown tool", "llama3", "{\"name\": \"Ω\", \"parameters\": {}}",
         "T({\"name\": \"Ω\", \"parameters\": {}})"),
    CASE("bare, no call", "llama3", "{\"name\": \"f\", \"age\": 3}", "T({\"name\": \"f\", \"age\": 3})"),
    CASE("bare, behind text", "llama3", "Ω {\"name\": \"f\", \"parameters\": {}}",
         "T(Ω {\"name\": \"f\", \"parameters\": {}})"),
    CASE("tag", "llama3", "Ω<|python_tag|>{\"type\": \"function\", \"name\": \"q\", \"parameters\": {\"a\": true}}",
         "T(Ω)C(q||{\"a\": true})"),
    CASE("code", "llama3", "<|python_tag|>print(\"Ω\")\nx", "C(python||{\"code\": \"print(\\\"Ω\\\")\\nx\"})"),
    /* ---- mistral ---- */
    CASE("old", "mistral",
         "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"s\": \"[Ω]\"}, \"id\": \"abcdefghi\"}, {\"name\": \"g\", "
         "\"arguments\": {}}]",
         "C(f||{\"s\": \"[Ω]\"})C(g||{})"),
    CASE("old, id first", "mistral", "[TOOL_CALLS] [{\"id\": \"abcdefghi\", \"name\": \"f\", \"arguments\": {}}]",
         "C(f|abcdefghi|{})"),
    CASE("new", "mistral", "Ω [TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
         "T(Ω)C(f||{\"a\": \"[TOOL_CALLS]\"})C(g|123456789|{})"),
    CASE("new, wrong", "mistral", "[TOOL_CALLS]f Ω[ARGS]{}", "T([TOOL_CALLS]f Ω[ARGS]{})"),
    CASE("new, no marks", "mistral", "[TOOL_CALLS]f{\"a\": 1}", "T([TOOL_CALLS]f{\"a\": 1})"),
    /* ---- deepseek ---- */
    CASE("v3.1", "deepseek",
         "Ω\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\": "
         "\"<｜tool▁call▁end｜>\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
         "｜tool▁calls▁end｜>",
         "T(Ω)C(f||{\"s\": \"<｜tool▁call▁end｜>\"})C(g||{})"),
    CASE("v3", "deepseek",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
         "\"Ω\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<"
         "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         "C(f||{\"a\": \"Ω\"})C(g||{})"),
    CASE("thought, then a call", "deepseek",
         "Ω hm\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         "R(Ω hm)C(f||{})", .opened = true),
    CASE("no call", "deepseek", "<｜tool▁calls▁begin｜>Ω<｜tool▁calls▁end｜>",
         "T(<｜tool▁calls▁begin｜>Ω<｜tool▁calls▁end｜>)"),
    CASE("no separator", "deepseek", "<｜tool▁call▁begin｜>f{\"Ω\": 1}<｜tool▁call▁end｜>",
         "T(<｜tool▁call▁begin｜>f{\"Ω\": 1}<｜tool▁call▁end｜>)"),
    /* ---- kimi ---- */
    CASE("kimi", "kimi",
         "Ω<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": "
         "\"<|tool_call_end|>\"}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_"
         "call_end|><|tool_calls_section_end|>",
         "T(Ω)C(f|functions.f:0|{\"a\": \"<|tool_call_end|>\"})C(g|functions.g:1|{})"),
    CASE("kimi, nothing to say", "kimi",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|> "
         "<|tool_call_end|><|tool_calls_section_end|>Ω",
         "C(f|functions.f:0|{})T(Ω)"),
    CASE("kimi, cut", "kimi",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"Ω",
         "c(f|functions.f:0|{\"a\": \"Ω)",
         "T(<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"Ω)"),
    /* ---- qwen3_coder ---- */
    CASE("coder", "qwen3_coder",
         "I look.\n\n<tool_call>\n<function=f>\n<parameter=s>\nint main() {\n\treturn "
         "\"Ω\";\n}\n\n</parameter>\n<parameter=n>\n42\n</parameter>\n<parameter=b>\nTrue\n"
         "</parameter>\n<parameter=o>\n{\"a\": [1]}\n</parameter>\n</function>\n</tool_call>",
         "T(I look.)C(f||{\"s\": \"int main() {\\n\\treturn \\\"Ω\\\";\\n}\\n\", \"n\": 42, \"b\": true, \"o\": "
         "{\"a\": [1]}})"),
    CASE("coder, marks in a value", "qwen3_coder",
         "<tool_call>\n<function=f>\n<parameter=s>\n</parameter>\nΩ </function> </parameter> "
         "x\n</parameter>\n</function>\n</tool_call>\nafter",
         "C(f||{\"s\": \"</parameter>\\nΩ </function> </parameter> x\"})T(after)"),
    CASE("coder, no outer tags", "qwen3_coder",
         "<function=g>\n</function>\n<function=f>\n<parameter=s>\n12\n</parameter>\n</function>",
         "C(g||{})C(f||{\"s\": \"12\"})"),
    CASE("coder, inner end missing", "qwen3_coder",
         "<tool_call>\n<function=f>\n<parameter=s>\nΩ\n</parameter>\n</tool_call>", "C(f||{\"s\": \"Ω\"})"),
    CASE("coder, kinds", "qwen3_coder",
         "<function=f>\n<parameter=e>\nnull\n</parameter>\n<parameter=u>\n\"q\"\n</parameter>\n<parameter=n>\nΩ\n</"
         "parameter>\n<parameter=d>\n7\n</parameter>\n</function>",
         "C(f||{\"e\": null, \"u\": \"\\\"q\\\"\", \"n\": \"Ω\", \"d\": 7})"),
    CASE("coder, cut", "qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\nΩ a", "c(f||{\"s\": \"Ω a)",
         "T(<tool_call>\n<function=f>\n<parameter=s>\nΩ a)"),
    CASE("coder, cut in a number", "qwen3_coder", "<tool_call>\n<function=f>\n<parameter=n>\n4",
         "c(f||)T(<parameter=n>\n4)", "T(<tool_call>\n<function=f>\n<parameter=n>\n4)"),
    CASE("coder, wrong", "qwen3_coder", "<tool_call>\n<function=f>\nΩ\n</function>\n</tool_call>",
         "c(f||)T(Ω\n</function>\n</tool_call>)", "T(<tool_call>\n<function=f>\nΩ\n</function>\n</tool_call>)"),
    CASE("coder, no function", "qwen3_coder", "<tool_call>{\"name\": \"Ω\"}</tool_call>",
         "T(<tool_call>{\"name\": \"Ω\"}</tool_call>)"),
    /* ---- glm ---- */
    CASE("glm", "glm",
         "\nΩ\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a</arg_value>b</arg_value>\n<arg_key>n</"
         "arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>g</tool_call>",
         "T(\nΩ)C(f||{\"s\": \"a</arg_value>b\", \"n\": 3})C(g||{})"),
    CASE("glm 4.7", "glm",
         "ok</think><tool_call>f<arg_key>s</arg_key><arg_value>Ω\n</arg_value></tool_call><tool_call>g</tool_call>",
         "R(ok)C(f||{\"s\": \"Ω\\n\"})C(g||{})", .opened = true),
    CASE("glm, no name", "glm", "<tool_call>{\"name\": \"Ω\"}</tool_call>",
         "T(<tool_call>{\"name\": \"Ω\"}</tool_call>)"),
    /* ---- minimax ---- */
    CASE("minimax", "minimax",
         "Ω\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a <b> </parameter> "
         "c</parameter>\n<parameter name=\"u\">[1, "
         "2]</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
         "T(Ω)C(f||{\"s\": \"a <b> </parameter> c\", \"u\": [1, 2]})C(g||{})"),
    CASE("minimax, empty", "minimax", "<minimax:tool_call>Ω</minimax:tool_call>",
         "T(<minimax:tool_call>Ω</minimax:tool_call>)"),
    /* ---- dsml ---- */
    CASE("v4", "dsml",
         "Ω\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"u\" "
         "string=\"true\">12</｜DSML｜parameter>\n<｜DSML｜parameter name=\"s\" "
         "string=\"false\">{\"a\": null}</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke "
         "name=\"g\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
         "T(Ω)C(f||{\"u\": \"12\", \"s\": {\"a\": null}})C(g||{})"),
    CASE("v3.2", "dsml",
         "hm</think><｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"u\" "
         "string=\"true\">Ω</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
         "R(hm)C(f||{\"u\": \"Ω\"})", .opened = true),
    CASE("v4, odd attribute", "dsml",
         "<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"u\" Ω=\"1\">",
         "c(f||)T(<｜DSML｜parameter name=\"u\" Ω=\"1\">)",
         "T(<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"u\" Ω=\"1\">)"),
    /* ---- harmony ---- */
    CASE("harmony", "harmony",
         "<|channel|>analysis<|message|>Ω hm <|end|><|start|>assistant<|channel|>final<|message|>Answer.\n<|return|>",
         "R(Ω hm)T(Answer.)"),
    CASE("harmony, call", "harmony",
         "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f "
         "<|constrain|>json<|message|>{\"s\": \"Ω <|call|>\"}<|call|>",
         "R(hm)C(f||{\"s\": \"Ω <|call|>\"})"),
    CASE("harmony, recipient in the role", "harmony",
         "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.f<|channel|>commentary "
         "json<|message|>{}<|call|>",
         "T(I look.)C(f||{})"),
    CASE("harmony, recipient at once", "harmony",
         " to=functions.f<|channel|>commentary <|constrain|>json<|message|>{\"a\": 1}", "C(f||{\"a\": 1})"),
    CASE("harmony, two texts", "harmony",
         "<|channel|>commentary<|message|>Ω.<|end|><|start|>assistant<|channel|>final<|message|>B", "T(Ω.\n\nB)"),
    CASE("harmony, no messages", "harmony", "Ω plain", "T(Ω plain)"),
    CASE("harmony, arguments are no object", "harmony", "<|channel|>commentary to=functions.f<|message|>Ω<|call|>",
         "T(<|channel|>commentary to=functions.f<|message|>Ω<|call|>)"),
    CASE("harmony without tools", "harmony",
         "<|channel|>analysis<|message|>Ω<|end|><|start|>assistant<|channel|>final<|message|>B", "R(Ω)T(B)",
         .no_tools = true),
};
const size_t n_toolcall_cases = sizeof toolcall_cases / sizeof *toolcall_cases;
