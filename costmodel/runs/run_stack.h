/* run_stack.h - which software ran a published run, from what its source documents (cost-model section 15).
 *
 * Internal to costmodel/runs. Every rule is a function of framework, version, year, GPU and the source's own notes;
 * none looks at a row's name or at what was measured. */
#ifndef TPP_COSTMODEL_RUNS_RUN_STACK_H
#define TPP_COSTMODEL_RUNS_RUN_STACK_H

#include "costmodel/job.h"
#include "costmodel/runs/run_facts.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "hwprofiles/hardware.h"

enum tpp_framework tpp_run_framework(const struct tpp_run_facts *facts); /* TPP_FRAMEWORK_OTHER: none that is known */
enum tpp_engine tpp_run_engine(const struct tpp_run_facts *facts);

/* The whole stack. `job` is filled already; its precision and task decide the dtypes. */
void tpp_run_stack_read(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu, const struct tpp_job *job,
                        struct tpp_stack *stack);

/* Communication switches, which frameworks and sources document beside the kernels: overlap of gradient reduction,
 * parameter gather and tensor-parallel transfers. `strategy` has its sizes already. */
void tpp_run_overlap_read(const struct tpp_run_facts *facts, const struct tpp_stack *stack,
                          struct tpp_strategy *strategy);

/* Dropout of the hidden states, 0 .. 1: the source's, else the framework's default for this kind of model. */
double tpp_run_dropout(const struct tpp_run_facts *facts);

/* Tokens of a document where documents are packed under a block-diagonal mask; 0 = attention over the whole sequence.
 */
uint64_t tpp_run_packed_document_tokens(const struct tpp_run_facts *facts);

#endif
