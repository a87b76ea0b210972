/* tp-calibrate-attention where cuDNN was not found when it was built. */
#include "calibrate/bench/host_program.h"

static enum tpp_code run(struct tpp_bench_run *run, struct tpp_error *err)
{
    (void)run;
    return tpp_fail(err, TPP_E_NOT_BUILT, "cuDNN",
                    "install cuDNN 9 with its headers and build again; the other programs work without it",
                    "this program was built without cuDNN: attention is not measured");
}

int main(int argc, char **argv)
{
    static const struct tpp_bench_option options[] = {{.name = NULL}};
    const struct tpp_bench_program program = {
        .name = "tp-calibrate-attention",
        .about = "Would measure cuDNN's fused attention, but was built without cuDNN.",
        .options = options,
        .arguments = &(int){0},
        .default_budget = "240",
        .run = run,
    };
    return tpp_bench_main(&program, argc, (const char *const *)argv);
}
