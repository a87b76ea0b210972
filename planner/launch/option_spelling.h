/* option_spelling.h - the rules of Megatron Core speak of Megatron-LM's options; this says them as another framework
 * that runs it spells them: "--recompute_method uniform" (ms-swift), "model.recompute_method=uniform"
 * (Megatron-Bridge).
 */
#ifndef TPP_PLANNER_LAUNCH_OPTION_SPELLING_H
#define TPP_PLANNER_LAUNCH_OPTION_SPELLING_H

#include "costmodel/stack.h"

#include <stddef.h>

/* Writes `text` into `out`, cut at `size`, with every option spelt as `framework` does. A switch that the text says to
 * add, use or set gets its value. Options that the framework does not have, and all of them for other frameworks, stay
 * as they are. */
void tpp_spell_options(enum tpp_framework framework, const char *text, char *out, size_t size);

#endif
