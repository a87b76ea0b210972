#include "calibrate/bench/host_launcher.h"

#include "calibrate/bench/host_numbers.h"
#include "costmodel/base/units.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_PORT 29400

struct environment {
    tpp_bench_lookup lookup;
    void *context;
};

static const char *get(const struct environment *environment, const char *name)
{
    const char *value = environment->lookup(environment->context, name);
    return value && value[0] ? value : NULL;
}

const char *tpp_bench_launcher_name(enum tpp_bench_launcher launcher)
{
    static const char *const names[] = {"none", "torchrun", "slurm", "mpi"};
    return names[launcher];
}

static enum tpp_code need_number(const struct environment *environment, const char *name, uint64_t max, uint32_t *out,
                                 struct tpp_error *err)
{
    const char *text = get(environment, name);
    uint64_t value = 0;
    if (!text) {
        return tpp_fail(err, TPP_E_USAGE, name, "start the program with torchrun, srun, mpirun or --spawn",
                        "the variable is not set, though others of this launcher are");
    }
    if (strspn(text, "0123456789") != strlen(text) || tpp_parse_count(text, name, &value, NULL) != TPP_OK ||
        value > max) {
        return tpp_fail(err, TPP_E_USAGE, name, NULL, "\"%.40s\" is no whole number up to %llu", text,
                        (unsigned long long)max);
    }
    *out = (uint32_t)value;
    return TPP_OK;
}

/* Absent: *out stays. */
static enum tpp_code get_number(const struct environment *environment, const char *name, uint64_t max, uint32_t *out,
                                struct tpp_error *err)
{
    return get(environment, name) ? need_number(environment, name, max, out, err) : TPP_OK;
}

static uint64_t token_of(const char *text)
{
    uint64_t token = 0;
    for (; text && *text; text++) {
        token = tpp_bench_hash(token, (unsigned char)*text);
    }
    return token;
}

enum tpp_code tpp_bench_first_host(const char *list, char *host, size_t size, struct tpp_error *err)
{
    const size_t prefix = strcspn(list, ",[");
    const char *number = list[prefix] == '[' ? list + prefix + 1 : "";
    const size_t digits = strcspn(number, "-,]");
    const char *rest = number + digits;
    rest = *rest ? strchr(rest, ']') : NULL;
    /* What follows the brackets of the first host, up to the next comma, is part of its name: "a[1-2]-ib". */
    const size_t suffix = rest ? strcspn(rest + 1, ",[") : 0;
    const bool is_cut = list[prefix] == '[' && (digits == 0 || !rest);
    if (is_cut || prefix + digits + suffix == 0 || prefix + digits + suffix >= size) {
        return tpp_fail(err, TPP_E_USAGE, "SLURM_STEP_NODELIST", "set MASTER_ADDR to the host of rank 0",
                        "no host name in \"%.80s\"", list);
    }
    snprintf(host, size, "%.*s%.*s%.*s", (int)prefix, list, (int)digits, number, (int)suffix, rest ? rest + 1 : "");
    for (const char *at = host; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("-._", *at)) {
            return tpp_fail(err, TPP_E_USAGE, "SLURM_STEP_NODELIST", "set MASTER_ADDR to the host of rank 0",
                            "no host name in \"%.80s\"", list);
        }
    }
    return TPP_OK;
}

static enum tpp_code take_address(const struct environment *environment, struct tpp_bench_world *world,
                                  struct tpp_error *err)
{
    const char *address = get(environment, "MASTER_ADDR");
    const char *nodes = get(environment, "SLURM_STEP_NODELIST");
    nodes = nodes ? nodes : get(environment, "SLURM_JOB_NODELIST");
    if (address) {
        if (strlen(address) >= sizeof world->address) {
            return tpp_fail(err, TPP_E_USAGE, "MASTER_ADDR", NULL, "the name is too long");
        }
        strcpy(world->address, address);
        return TPP_OK;
    }
    if (nodes && world->launcher == TPP_BENCH_SLURM) {
        return tpp_bench_first_host(nodes, world->address, sizeof world->address, err);
    }
    return tpp_fail(err, TPP_E_USAGE, "MASTER_ADDR", "set it to the host of rank 0", "the variable is not set");
}

static enum tpp_code take_port(const struct environment *environment, struct tpp_bench_world *world,
                               struct tpp_error *err)
{
    uint32_t port = DEFAULT_PORT, job = 0;
    enum tpp_code code = get_number(environment, "MASTER_PORT", 65534, &port, err);
    if (get(environment, "MASTER_PORT")) {
        port += get(environment, "TORCHELASTIC_RUN_ID") ? 1 : 0;
    } else if (world->launcher == TPP_BENCH_SLURM &&
               get_number(environment, "SLURM_JOB_ID", UINT32_MAX, &job, NULL) == TPP_OK) {
        port = 20000 + job % 20000; /* two jobs on one node do not meet */
    }
    if (code == TPP_OK) {
        code = get_number(environment, "TPP_BOOTSTRAP_PORT", 65535, &port, err);
    }
    world->port = (uint16_t)port;
    return code;
}

static enum tpp_code check(const struct tpp_bench_world *world, const char *rank_name, struct tpp_error *err)
{
    if (world->size == 0 || world->rank >= world->size) {
        return tpp_fail(err, TPP_E_USAGE, rank_name, NULL, "rank %u is none of %u ranks", world->rank, world->size);
    }
    return TPP_OK;
}

static enum tpp_code from_torchrun(const struct environment *environment, struct tpp_bench_world *world,
                                   struct tpp_error *err)
{
    world->launcher = TPP_BENCH_TORCHRUN;
    enum tpp_code code = need_number(environment, "RANK", UINT32_MAX, &world->rank, err);
    code = code ? code : need_number(environment, "WORLD_SIZE", UINT32_MAX, &world->size, err);
    code = code ? code : get_number(environment, "LOCAL_RANK", 65535, &world->local_rank, err);
    code = code ? code : get_number(environment, "LOCAL_WORLD_SIZE", 65535, &world->ranks_per_node, err);
    world->token = token_of(get(environment, "TORCHELASTIC_RUN_ID"));
    return code ? code : check(world, "RANK", err);
}

static enum tpp_code from_slurm(const struct environment *environment, struct tpp_bench_world *world,
                                struct tpp_error *err)
{
    world->launcher = TPP_BENCH_SLURM;
    const char *size = get(environment, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    enum tpp_code code = need_number(environment, "SLURM_PROCID", UINT32_MAX, &world->rank, err);
    code = code ? code : need_number(environment, size, UINT32_MAX, &world->size, err);
    code = code ? code : get_number(environment, "SLURM_LOCALID", 65535, &world->local_rank, err);
    world->token = token_of(get(environment, "SLURM_JOB_ID"));
    return code ? code : check(world, "SLURM_PROCID", err);
}

enum tpp_code tpp_bench_world_find(tpp_bench_lookup lookup, void *context, struct tpp_bench_world *world,
                                   struct tpp_error *err)
{
    const struct environment environment = {lookup, context};
    memset(world, 0, sizeof *world);
    enum tpp_code code;
    if (get(&environment, "RANK") || get(&environment, "WORLD_SIZE")) {
        code = from_torchrun(&environment, world, err);
    } else if (get(&environment, "SLURM_PROCID")) {
        code = from_slurm(&environment, world, err);
    } else {
        world->size = world->ranks_per_node = 1;
        strcpy(world->address, "127.0.0.1");
        return TPP_OK;
    }
    if (code == TPP_OK && world->size == 1) { /* nobody to meet: no address is needed */
        strcpy(world->address, "127.0.0.1");
        return TPP_OK;
    }
    code = code ? code : take_address(&environment, world, err);
    return code ? code : take_port(&environment, world, err);
}
