/* Any words as the options of launch, which has them all: parsed, or refused with a place and a reason. The first line
 * is a placement, every other line a word. */
#include "tests/fuzz/fuzz_target.h"

#include "cli/command.h"
#include "cli/strategy_option.h"

#include <string.h>

#define MAX_WORDS 100

static void check_error(enum tpp_code code, const struct tpp_error *err)
{
    FUZZ_CHECK(code == TPP_OK || (code == TPP_E_USAGE && err->code == TPP_E_USAGE));
    FUZZ_CHECK(code == TPP_OK || (err->message[0] != '\0' && err->where[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct tpp_command *command = &tpp_command_launch;
    const char *words[MAX_WORDS];
    int count = 0;
    char *text = malloc(size + 1);
    void *arguments = calloc(1, command->arguments_size);
    FUZZ_CHECK(text != NULL && arguments != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *word = text; word != NULL && count < MAX_WORDS; count++) {
        words[count] = word;
        word = strchr(word, '\n');
        if (word != NULL)
            *word++ = '\0';
    }
    struct tpp_error err = {.code = TPP_OK};
    struct tpp_operands operands;
    uint32_t tensor_ranks, context_ranks;
    bool help;
    check_error(tpp_placement_parse(words[0], 4, 2, &tensor_ranks, &context_ranks, &err), &err);
    err = (struct tpp_error){.code = TPP_OK};
    const enum tpp_code code =
        tpp_options_parse(command->parts, count - 1, words + 1, arguments, &operands, &help, &err);
    check_error(code, &err);
    FUZZ_CHECK(code != TPP_OK || operands.count <= (size_t)count - 1);
    free(arguments);
    free(text);
    return 0;
}
