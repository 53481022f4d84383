/* Files that are no GGUF are called what they are. */
#include "file.h"

static void refused(const void *data, size_t bytes, const char *what, const char *hint)
{
    struct file f = {0};
    file_raw(&f, data, bytes);
    file_refused(&f, SLUICE_ERR_MODEL, "is not a GGUF file", what, hint, NULL);
    file_free(&f);
}

#define IS(literal, what, hint) refused(literal, sizeof(literal) - 1, what, hint)

static void texts(void **state)
{
    refused("", 0, "empty (0 bytes)", "again");
    IS("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "git-lfs pointer", "git lfs pull");
    IS("<!DOCTYPE html><html>", "a web page", "login");
    IS("\n  <HTML lang='en'>", "a web page", "login");
    IS("\xef\xbb\xbf<!doctype html>", "a web page", "login");
    IS("{\"error\":\"Repository not found\"}", "JSON", "failed download");
    IS("Invalid username or password.", "begins with 'Invalid '", ".gguf");
}

static void other_formats(void **state)
{
    IS("\x20\0\0\0\0\0\0\0{\"__metadata__\":{}}              ", "safetensors", "convert");
    IS("PK\x03\x04rest", "PyTorch", "convert");
    IS("\x80\x02}q", "pickle", "convert");
    IS("\x80\x04}q", "pickle", "convert");
    IS("\x89HDF\r\n\x1a\n", "HDF5", "convert");
    IS("\x1f\x8b\x08", "gzip", "unpack");
    IS("\x28\xb5\x2f\xfd", "zstd", "unpack");
    IS("\xfd\x37zXZ\0", "xz", "unpack");
    IS("7z\xbc\xaf\x27\x1c", "7z", "unpack");
    IS("\x7f\x45LF\x02", "a program", ".gguf");
}

static void old_formats(void **state)
{
    IS("lmgg\1\0\0\0", "old unversioned ggml", "current GGUF");
    IS("fmgg\1\0\0\0", "old ggmf", "current GGUF");
    IS("tjgg\3\0\0\0", "old ggjt", "current GGUF");
    IS("algg\1\0\0\0", "ggla LoRA", "current GGUF");
    IS("nsgg\1\0\0\0", "session", ".gguf");
    IS("FUGG\0\0\0\3", "swapped", "again");
}

static void oddities(void **state)
{
    IS("\0\0\0\0\0\0\0\0\0\0", "zero bytes", "again");
    IS("G", "begins with 'G'", ".gguf");
    IS("GGU", "begins with 'GGU'", ".gguf");
    IS("\x01\x02\x03\x04\x05", "begins with '\?\?\?\?\?'", ".gguf");
    struct file f = {0};
    file_raw(&f, "GGUF", 4);
    file_refused(&f, SLUICE_ERR_MODEL, "ends inside its header", "4 bytes", NULL);
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(other_formats),
        cmocka_unit_test(old_formats),
        cmocka_unit_test(oddities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
