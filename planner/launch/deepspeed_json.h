/* deepspeed_json.h - private to the emitters: the ds_config.json of a plan (launch formats, section 3). */
#ifndef TPP_PLANNER_LAUNCH_DEEPSPEED_JSON_H
#define TPP_PLANNER_LAUNCH_DEEPSPEED_JSON_H

#include "planner/launch/launch.h"

enum tpp_deepspeed_client {
    TPP_DEEPSPEED_ENGINE,   /* initialised by the training program */
    TPP_DEEPSPEED_PIPELINE, /* by its pipeline engine */
    TPP_DEEPSPEED_TRAINER,  /* by Hugging Face's Trainer, which fills in what is "auto" */
};

/* Appends the configuration. Batch sizes are the plan's; sizes that the plan leaves to the framework are left out. */
enum tpp_code tpp_deepspeed_json_write(const struct tpp_launch_request *request, enum tpp_deepspeed_client client,
                                       struct tpp_text *out, struct tpp_error *err);

/* TPP_E_UNSUPPORTED for what no such configuration says; `framework` is for the message. */
enum tpp_code tpp_deepspeed_json_check(const struct tpp_launch_request *request, enum tpp_deepspeed_client client,
                                       const char *framework, struct tpp_error *err);

#endif
