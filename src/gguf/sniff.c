/* What a file is that is not a GGUF. Signatures: the formats' public descriptions; those of old ggml files from the
 * GGUF specification's history section. */
#include "gguf/private.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define SNIFF_BYTES 64

struct signature {
    const char *bytes;
    uint8_t n;
    const char *what, *hint;
};

#define HINT_CONVERT "convert it to GGUF first, or download the model's GGUF files"
#define HINT_OLD "the format has been dead since 2023: download a current GGUF of this model"
#define HINT_UNPACK "unpack it first"
#define HINT_DOWNLOAD "download the file itself again"

static const struct signature signatures[] = {
    {"version https://git-lfs", 23, "a git-lfs pointer, not the model itself",
     "run 'git lfs pull', or download the file itself"},
    {"PK\x03\x04", 4, "a zip archive or a PyTorch checkpoint (zip of pickles)", HINT_CONVERT},
    {"\x80\x02", 2, "a Python pickle (an old PyTorch checkpoint)", HINT_CONVERT},
    {"\x80\x03", 2, "a Python pickle (an old PyTorch checkpoint)", HINT_CONVERT},
    {"\x80\x04", 2, "a Python pickle (an old PyTorch checkpoint)", HINT_CONVERT},
    {"\x80\x05", 2, "a Python pickle (an old PyTorch checkpoint)", HINT_CONVERT},
    {"\x89HDF\r\n", 6, "an HDF5 file", HINT_CONVERT},
    {"lmgg", 4, "an old unversioned ggml file, or a whisper.cpp speech model",
     "of a language model, download a current GGUF; speech models are not for Sluice"},
    {"fmgg", 4, "an old ggmf file", HINT_OLD},
    {"tjgg", 4, "an old ggjt file", HINT_OLD},
    {"algg", 4, "an old ggla LoRA adapter", HINT_OLD},
    {"nsgg", 4, "a saved llama.cpp session", "name the model's .gguf file"},
    {"qsgg", 4, "a saved llama.cpp sequence state", "name the model's .gguf file"},
    {"\x1f\x8b", 2, "gzip-compressed", HINT_UNPACK},
    {"\x28\xb5\x2f\xfd", 4, "zstd-compressed", HINT_UNPACK},
    {"\xfd"
     "7zXZ",
     5, "xz-compressed", HINT_UNPACK},
    {"7z\xbc\xaf\x27\x1c", 6, "a 7z archive", HINT_UNPACK},
    {"\x7f"
     "ELF",
     4, "a program", "name the model's .gguf file"},
    {"FUGG", 4, "a GGUF file with its bytes swapped", HINT_DOWNLOAD},
};

bool gguf_is_raw_piece(const char *path)
{
    static const char *const marks[] = {".gguf.part", ".gguf-part", ".gguf-split-", ".gguf.split-"};
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *mark = strcasestr(base, marks[i]);
        if (mark && mark[strlen(marks[i])]) return true; /* "model.gguf.part" alone is an unfinished download */
    }
    return false;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

/* safetensors: a little-endian u64, the length of the JSON object that follows. */
static bool is_safetensors(const uint8_t *p, size_t n, uint64_t file_bytes)
{
    return n > 8 && p[8] == '{' && gguf_load_u64(p) <= file_bytes - 8;
}

static enum sluice_status fail_not_gguf(const struct gguf_source *s, const uint8_t *p, size_t n,
                                        struct sluice_error *err)
{
    const char *what = NULL, *hint = NULL;
    size_t text = 0;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) text = 3;
    while (text < n && (p[text] == ' ' || p[text] == '\n' || p[text] == '\r' || p[text] == '\t')) text++;

    for (size_t i = 0; i < sizeof signatures / sizeof *signatures && !what; i++)
        if (n >= signatures[i].n && memcmp(p, signatures[i].bytes, signatures[i].n) == 0) {
            what = signatures[i].what;
            hint = signatures[i].hint;
        }
    if (!what && is_safetensors(p, n, s->bytes)) what = "a safetensors file", hint = HINT_CONVERT;
    if (!what && n - text >= 5 &&
        (strncasecmp((const char *)p + text, "<html", 5) == 0 || strncasecmp((const char *)p + text, "<!doc", 5) == 0))
        what = "a web page (HTML)", hint = "the download failed or needs a login: download the file itself";
    if (!what && n > text && p[text] == '{')
        what = "JSON text", hint = "name the model's .gguf file; a failed download can leave such a text";
    if (!what && all_zero(p, n)) what = "empty space (zero bytes): a download that never began", hint = HINT_DOWNLOAD;
    if (what) return base_fail(err, SLUICE_ERR_MODEL, hint, "%s: is not a GGUF file: it is %s", s->shown, what);

    if (gguf_is_raw_piece(s->shown))
        return base_fail(err, SLUICE_ERR_MODEL, "join all pieces with cat, in order, and open the result",
                         "%s: is not a GGUF file by itself: it is a raw piece of one", s->shown);
    char start[GGUF_SHOWN_BYTES];
    gguf_shown_name(start, p, n < 8 ? n : 8);
    return base_fail(err, SLUICE_ERR_MODEL, "name the model's .gguf file",
                     "%s: is not a GGUF file: it begins with '%s' instead of 'GGUF' (%" PRIu64 " bytes in all)",
                     s->shown, start, s->bytes);
}

enum sluice_status gguf_sniff(struct gguf_source *s, uint32_t *version, struct sluice_error *err)
{
    if (s->bytes == 0)
        return base_fail(err, SLUICE_ERR_MODEL, HINT_DOWNLOAD, "%s: is not a GGUF file: it is empty (0 bytes)",
                         s->shown);
    size_t n = s->bytes < SNIFF_BYTES ? (size_t)s->bytes : SNIFF_BYTES;
    enum sluice_status status = gguf_source_need(s, n, err);
    if (status != SLUICE_OK) return status;
    if (n < 4 || memcmp(s->window, "GGUF", 4) != 0) return fail_not_gguf(s, s->window, n, err);
    s->at = 4;

    status = gguf_source_need(s, 4, err);
    if (status != SLUICE_OK) return status;
    uint32_t v = gguf_load_u32(s->window + 4);
    s->at = 8;
    if ((v & 0xffff) == 0 && v != 0)
        return base_fail(
            err, SLUICE_ERR_MODEL, "download or convert the little-endian file",
            "%s: is a big-endian GGUF file (version bytes %02x %02x %02x %02x); Sluice reads little-endian", s->shown,
            s->window[4], s->window[5], s->window[6], s->window[7]);
    if (v == 1)
        return base_fail(err, SLUICE_ERR_MODEL, "download or convert the model anew",
                         "%s: is GGUF version 1, which was replaced in 2023; Sluice reads versions 2 and 3", s->shown);
    if (v != 2 && v != 3)
        return base_fail(err, SLUICE_ERR_MODEL, v > 3 ? "a newer Sluice may read it" : HINT_DOWNLOAD,
                         "%s: is GGUF version %" PRIu32 "; Sluice reads versions 2 and 3", s->shown, v);
    *version = v;
    return SLUICE_OK;
}
