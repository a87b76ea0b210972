/* megatron_lm.h - the two halves of Megatron-LM's launch script. */
#ifndef TPP_PLANNER_LAUNCH_MEGATRON_LM_H
#define TPP_PLANNER_LAUNCH_MEGATRON_LM_H

#include "planner/launch/script.h"
#include "planner/rules/rules.h"

/* TPP_E_UNSUPPORTED when the options of Megatron-LM cannot describe the model; `where` is "model.<field>". */
enum tpp_code tpp_megatron_lm_check_model(const struct tpp_launch_request *request, struct tpp_error *err);
/* Appends MODEL_ARGS. */
void tpp_megatron_lm_write_model(struct tpp_script *script, const struct tpp_launch_request *request);

#endif
