/* Ranks from the environment of launchers. */
#include "calibrate/bench/host_launcher.h"
#include "tests/support/check_number.h"

#include <string.h>

struct variable {
    const char *name, *value;
};

static const char *lookup(void *context, const char *name)
{
    for (const struct variable *variable = context; variable->name; variable++) {
        if (strcmp(variable->name, name) == 0) {
            return variable->value;
        }
    }
    return NULL;
}

static enum tpp_code find(struct variable *variables, struct tpp_bench_world *world, struct tpp_error *err)
{
    memset(err, 0, sizeof *err);
    return tpp_bench_world_find(lookup, variables, world, err);
}

static void torchrun_says_everything(void **state)
{
    (void)state;
    struct tpp_bench_world world;
    struct tpp_error err;
    struct variable variables[] = {{"RANK", "13"},
                                   {"WORLD_SIZE", "16"},
                                   {"LOCAL_RANK", "5"},
                                   {"LOCAL_WORLD_SIZE", "8"},
                                   {"MASTER_ADDR", "gpu7"},
                                   {"MASTER_PORT", "29500"},
                                   {"SLURM_PROCID", "1"},
                                   {NULL, NULL},
                                   {NULL, NULL}};
    assert_int_equal(find(variables, &world, &err), TPP_OK);
    assert_int_equal(world.launcher, TPP_BENCH_TORCHRUN);
    assert_int_equal(world.rank, 13);
    assert_int_equal(world.size, 16);
    assert_int_equal(world.local_rank, 5);
    assert_int_equal(world.ranks_per_node, 8);
    assert_string_equal(world.address, "gpu7");
    assert_int_equal(world.port, 29500);
    variables[7] = (struct variable){"TORCHELASTIC_RUN_ID", "none"}; /* the agent's store holds that port */
    assert_int_equal(find(variables, &world, &err), TPP_OK);
    assert_int_equal(world.port, 29501);
    variables[6] = (struct variable){"TPP_BOOTSTRAP_PORT", "4711"};
    assert_int_equal(find(variables, &world, &err), TPP_OK);
    assert_int_equal(world.port, 4711);
}

static void slurm_says_who_and_where(void **state)
{
    (void)state;
    struct tpp_bench_world world, other;
    struct tpp_error err;
    struct variable variables[] = {{"SLURM_PROCID", "3"},
                                   {"SLURM_NTASKS", "4"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_STEP_NODELIST", "gpu[07-08],gpu12"},
                                   {"SLURM_JOB_ID", "812345"},
                                   {NULL, NULL},
                                   {NULL, NULL}};
    assert_int_equal(find(variables, &world, &err), TPP_OK);
    assert_int_equal(world.launcher, TPP_BENCH_SLURM);
    assert_int_equal(world.rank, 3);
    assert_int_equal(world.size, 4);
    assert_int_equal(world.local_rank, 1);
    assert_string_equal(world.address, "gpu07");
    assert_int_equal(world.port, 20000 + 812345 % 20000);
    variables[4].value = "812346";
    assert_int_equal(find(variables, &other, &err), TPP_OK);
    assert_true(world.token != other.token); /* another job's ranks are strangers */
    variables[5] = (struct variable){"MASTER_ADDR", "10.0.0.9"};
    assert_int_equal(find(variables, &world, &err), TPP_OK);
    assert_string_equal(world.address, "10.0.0.9");
}

static void no_launcher_is_one_rank(void **state)
{
    (void)state;
    struct tpp_bench_world world;
    struct tpp_error err;
    struct variable variables[] = {{"SLURM_JOB_ID", "5"}, {"RANK", ""}, {NULL, NULL}}; /* inside an allocation */
    assert_int_equal(find(variables, &world, &err), TPP_OK);
    assert_int_equal(world.launcher, TPP_BENCH_ALONE);
    assert_int_equal(world.size, 1);
    assert_int_equal(world.rank, 0);
}

static void what_makes_no_sense_names_the_variable(void **state)
{
    (void)state;
    static struct {
        struct variable variables[5];
        const char *where;
    } cases[] = {
        {{{"RANK", "0"}}, "WORLD_SIZE"},
        {{{"WORLD_SIZE", "4"}}, "RANK"},
        {{{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}}, "RANK"},
        {{{"RANK", "-1"}, {"WORLD_SIZE", "4"}}, "RANK"},
        {{{"RANK", "1e1"}, {"WORLD_SIZE", "40"}}, "RANK"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "RANK"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, "WORLD_SIZE"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}, "MASTER_PORT"},
        {{{"SLURM_PROCID", "0"}}, "SLURM_NTASKS"},
        {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, "MASTER_ADDR"},
        {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NODELIST", "[1-2]$(x)"}}, "SLURM_STEP_NODELIST"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_bench_world world;
        struct tpp_error err;
        assert_int_equal(find(cases[i].variables, &world, &err), TPP_E_USAGE);
        assert_string_equal(err.where, cases[i].where);
    }
}

static void the_first_host_of_a_list(void **state)
{
    (void)state;
    static const struct {
        const char *list, *host;
    } cases[] = {
        {"gpu[07-12,20],login", "gpu07"},
        {"single", "single"},
        {"a1,a2", "a1"},
        {"n[3]", "n3"},
        {"rack1-[001-010]-ib,x", "rack1-001-ib"},
        {"dgx-a.example.org", "dgx-a.example.org"},
    };
    char host[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tpp_bench_first_host(cases[i].list, host, sizeof host, NULL), TPP_OK);
        assert_string_equal(host, cases[i].host);
    }
    static const char *const broken[] = {
        "", ",", "[", "gpu[", "gpu[01", "a b", "[]", "x;y", "a-name-that-is-much-too-long-for-the-buffer"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        assert_int_equal(tpp_bench_first_host(broken[i], host, sizeof host, NULL), TPP_E_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torchrun_says_everything), cmocka_unit_test(slurm_says_who_and_where),
        cmocka_unit_test(no_launcher_is_one_rank),  cmocka_unit_test(what_makes_no_sense_names_the_variable),
        cmocka_unit_test(the_first_host_of_a_list),
    };
    return cmocka_run_group_tests_name("bench_launcher", tests, NULL, NULL);
}
