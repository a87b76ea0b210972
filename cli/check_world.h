/* check_world.h - private: on how many GPUs a script runs. */
#ifndef TPP_CLI_CHECK_WORLD_H
#define TPP_CLI_CHECK_WORLD_H

#include "cli/check_script.h"

/* GPUs of the script or of the options; 0: not known. */
int64_t tpp_check_written_world(struct tpp_check *check);
/* Sets the world that the rules are asked with: the needed one where the script's is an example or not known. */
void tpp_check_set_world(struct tpp_check *check);

#endif
