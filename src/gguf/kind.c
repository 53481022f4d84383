/* What a GGUF file is: by general.type, general.architecture and whether it has tensors. */
#include "gguf/private.h"

#include <string.h>

/* Names under general.type and general.architecture. Those with a hint go with a model and are none. The architectures
 * of other models are those of llama.cpp, whisper.cpp, stable-diffusion.cpp and ComfyUI-GGUF. */
static const struct {
    const char *name;
    enum gguf_kind kind;
    const char *hint;
} marks[] = {
    {"clip", GGUF_PROJECTOR, "name the language model's own .gguf file"},
    {"mmproj", GGUF_PROJECTOR, "name the language model's own .gguf file"},
    {"adapter", GGUF_ADAPTER, "name the base model's .gguf file; Sluice does not apply adapters"},
    {"imatrix", GGUF_IMATRIX, "name the model's .gguf file"},
    {"controlvector", GGUF_CONTROL_VECTOR, "name the model's .gguf file"},
    {"bert", GGUF_EMBEDDING_MODEL, NULL},
    {"nomic-bert", GGUF_EMBEDDING_MODEL, NULL},
    {"nomic-bert-moe", GGUF_EMBEDDING_MODEL, NULL},
    {"neo-bert", GGUF_EMBEDDING_MODEL, NULL},
    {"modern-bert", GGUF_EMBEDDING_MODEL, NULL},
    {"jina-bert-v2", GGUF_EMBEDDING_MODEL, NULL},
    {"jina-bert-v3", GGUF_EMBEDDING_MODEL, NULL},
    {"eurobert", GGUF_EMBEDDING_MODEL, NULL},
    {"gemma-embedding", GGUF_EMBEDDING_MODEL, NULL},
    {"llama-embed", GGUF_EMBEDDING_MODEL, NULL},
    {"t5encoder", GGUF_EMBEDDING_MODEL, NULL},
    {"whisper", GGUF_SPEECH_MODEL, NULL},
    {"parakeet", GGUF_SPEECH_MODEL, NULL},
    {"wavtokenizer-dec", GGUF_SPEECH_MODEL, NULL},
    {"kokoro", GGUF_SPEECH_MODEL, NULL},
    {"sd1", GGUF_IMAGE_MODEL, NULL},
    {"sdxl", GGUF_IMAGE_MODEL, NULL},
    {"sd3", GGUF_IMAGE_MODEL, NULL},
    {"flux", GGUF_IMAGE_MODEL, NULL},
    {"flux2", GGUF_IMAGE_MODEL, NULL},
    {"aura", GGUF_IMAGE_MODEL, NULL},
    {"chroma", GGUF_IMAGE_MODEL, NULL},
    {"hidream", GGUF_IMAGE_MODEL, NULL},
    {"lumina2", GGUF_IMAGE_MODEL, NULL},
    {"qwen_image", GGUF_IMAGE_MODEL, NULL},
    {"cosmos", GGUF_IMAGE_MODEL, NULL},
    {"ltxv", GGUF_IMAGE_MODEL, NULL},
    {"hyvid", GGUF_IMAGE_MODEL, NULL},
    {"wan", GGUF_IMAGE_MODEL, NULL},
};

static bool is(const struct gguf_str *s, const char *text)
{
    return s->bytes == strlen(text) && memcmp(s->at, text, s->bytes) == 0;
}

/* The mark that applies, or NULL. A key of a wrong type is as good as none here. */
static enum gguf_kind find(const struct gguf *g, const char **hint)
{
    struct gguf_str type = {"", 0}, arch = {"", 0};
    if (gguf_get_str(g, "general.type", false, &type, NULL)) type = (struct gguf_str){"", 0};
    if (gguf_get_str(g, "general.architecture", false, &arch, NULL)) arch = (struct gguf_str){"", 0};
    *hint = "name a language model's .gguf file";
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (is(&type, marks[i].name) || is(&arch, marks[i].name)) {
            if (marks[i].hint) *hint = marks[i].hint;
            return marks[i].kind;
        }
    if (arch.bytes == 0) return GGUF_NO_MODEL;
    return g->n_tensors == 0 ? GGUF_VOCABULARY : GGUF_LANGUAGE_MODEL;
}

enum gguf_kind gguf_kind(const struct gguf *g)
{
    const char *hint;
    return find(g, &hint);
}

const char *gguf_kind_text(enum gguf_kind kind)
{
    switch (kind) {
    case GGUF_LANGUAGE_MODEL: return "a language model";
    case GGUF_VOCABULARY: return "the vocabulary of a language model";
    case GGUF_PROJECTOR: return "a vision or audio projector (mmproj)";
    case GGUF_ADAPTER: return "a LoRA adapter";
    case GGUF_IMATRIX: return "an importance matrix for quantisation";
    case GGUF_CONTROL_VECTOR: return "a control vector";
    case GGUF_EMBEDDING_MODEL: return "an embedding model";
    case GGUF_SPEECH_MODEL: return "a speech model";
    case GGUF_IMAGE_MODEL: return "a model that makes images or video";
    case GGUF_NO_MODEL: break;
    }
    return "a GGUF file that names no architecture";
}

enum sluice_status gguf_check_language_model(const struct gguf *g, bool vocab_only, struct sluice_error *err)
{
    const struct gguf_file *f = g->files[0];
    struct gguf_str unused = {"", 0}, arch = {"", 0};
    const char *hint;
    enum sluice_status status = gguf_get_str(g, "general.type", false, &unused, err);
    if (status == SLUICE_OK) status = gguf_get_str(g, "general.architecture", false, &arch, err);
    if (status != SLUICE_OK) return status;
    enum gguf_kind kind = find(g, &hint);
    switch (kind) {
    case GGUF_LANGUAGE_MODEL: break;
    case GGUF_VOCABULARY: {
        char shown[GGUF_SHOWN_BYTES];
        if (vocab_only) break;
        gguf_shown_name(shown, arch.at, arch.bytes);
        return base_fail(err, SLUICE_ERR_MODEL, "name a .gguf file with weights",
                         "%s: is not a whole language model: it has the vocabulary of a '%s' and 0 tensors", f->shown,
                         shown);
    }
    case GGUF_NO_MODEL:
        return base_fail(err, SLUICE_ERR_MODEL, hint, "%s: is not a language model: key 'general.architecture' is %s",
                         f->shown, gguf_find(g, "general.architecture") ? "empty" : "missing");
    case GGUF_PROJECTOR:
    case GGUF_ADAPTER:
    case GGUF_IMATRIX:
    case GGUF_CONTROL_VECTOR:
    case GGUF_EMBEDDING_MODEL:
    case GGUF_SPEECH_MODEL:
    case GGUF_IMAGE_MODEL:
        return base_fail(err, SLUICE_ERR_MODEL, hint, "%s: is not a language model: it is %s", f->shown,
                         gguf_kind_text(kind));
    }
    return SLUICE_OK;
}
