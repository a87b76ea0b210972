/* corpus_main.c - runs a fuzz target without libFuzzer: on each file of its corpus, and on seeded variants of it.
 *
 * corpus_main FOLDER: one TAP line a file. A crash ends the program; the line before it names the file. */
#include "tests/fuzz/fuzz_target.h"

#include "costmodel/base/file.h"
#include "tests/support/random.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { NUM_VARIANTS = TPP_NUM_CASES(300, 150), MAX_FILE_BYTES = 1 << 20, MAX_VARIED_BYTES = 16 * 1024 };

/* In memory of exactly that size, so that a sanitizer sees the first byte that is read too far. */
static void run_exact(const char *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) {
        abort();
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Changes 1 to 4 places: another byte, a bit, a piece left out, a piece doubled, the end cut. Returns the new size;
 * `data` has room for `capacity`. */
static size_t vary(struct tpp_random *random, char *data, size_t size, size_t capacity)
{
    static const char common[] = "{}[]\",:\\ \n0-9.eE+'$`=&;|<>#%/\xff";
    for (uint64_t i = tpp_random_range(random, 1, 4); i > 0 && size > 0; i--) {
        const size_t at = (size_t)tpp_random_range(random, 0, size - 1);
        const size_t piece = (size_t)tpp_random_range(random, 1, size - at < 64 ? size - at : 64);
        switch (tpp_random_range(random, 0, 5)) {
        case 0:
            data[at] = common[tpp_random_range(random, 0, sizeof common - 1)]; /* also its NUL */
            break;
        case 1:
            data[at] = (char)tpp_random_next(random);
            break;
        case 2:
            data[at] = (char)(data[at] ^ (1 << tpp_random_range(random, 0, 7)));
            break;
        case 3:
            memmove(data + at, data + at + piece, size - at - piece);
            size -= piece;
            break;
        case 4:
            if (size + piece <= capacity) {
                memmove(data + at + piece, data + at, size - at);
                size += piece;
            }
            break;
        default:
            size = tpp_random_range(random, 0, 3) == 0 ? at : size;
        }
    }
    return size;
}

static void run_variants(const char *data, size_t size)
{
    const size_t capacity = size + 4 * 64;
    char *variant = malloc(capacity);
    struct tpp_random random = {.state = size};
    if (!variant) {
        abort();
    }
    for (int i = 0; i < NUM_VARIANTS; i++) {
        memcpy(variant, data, size);
        run_exact(variant, vary(&random, variant, size, capacity));
    }
    free(variant);
}

static bool run_file(const char *folder, const char *name)
{
    char path[4096];
    char *data;
    size_t size;
    struct tpp_error err;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (tpp_file_read(path, MAX_FILE_BYTES, &data, &size, &err) != TPP_OK) {
        printf("# %s: %s\n", err.where, err.message);
        return false;
    }
    run_exact(data, size);
    if (size > 0 && size <= MAX_VARIED_BYTES) {
        run_variants(data, size);
    }
    free(data);
    return true;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    bool all_ok = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int count = argc == 2 ? scandir(argv[1], &entries, is_shown, alphasort) : -1;
    if (count <= 0) {
        printf("1..1\nnot ok 1 - no corpus in %s\n", argc == 2 ? argv[1] : "(no folder given)");
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        printf("# %s\n", entries[i]->d_name);
        const bool is_ok = run_file(argv[1], entries[i]->d_name);
        printf("%s %d - %s\n", is_ok ? "ok" : "not ok", i + 1, entries[i]->d_name);
        all_ok = all_ok && is_ok;
        free(entries[i]);
    }
    free(entries);
    return all_ok ? 0 : 1;
}
