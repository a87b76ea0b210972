/* What transfers between pipeline stages cost when they run in place of compute: the instructions that two engines issue, run
 * by rendezvous, against the schedule with the device time of an exchange that the evaluator takes.
 *
 * Megatron-LM (megatron/core/pipeline_parallel: schedules.py, forward_backward_pipelining_without_interleaving;
 * p2p_communication.py, batch_isend_irecv, then wait on every request): after a forward pass of the steady state the stage
 * sends up and receives from above in one batch, after a backward pass the same below.
 * DeepSpeed (deepspeed/runtime/pipe/schedule.py, TrainSchedule.steps; its comment: "The communication is blocking and must be
 * paired"): one transfer after the other.
 *
 * A transfer needs both sides and takes Tc. Charging Tc on the way and Tc on the device, as cost-model 7 has it, is one transfer
 * a micro-batch or more above what Megatron's batches take. */
#include "costmodel/schedules/schedule.h"
#include "tests/support/check_number.h"

#include <string.h>

enum { MAX_STAGES = 8, MAX_MICRO_BATCHES = 64, MAX_INSTRUCTIONS = 8 * MAX_MICRO_BATCHES };

enum part { SEND_UP, RECEIVE_DOWN, SEND_DOWN, RECEIVE_UP, NUM_PARTS }; /* up: to the next stage; RECEIVE_UP: from it */

struct instruction {
    double seconds;        /* compute; 0: the parts below */
    int parts[NUM_PARTS];  /* micro-batch, -1: not a part */
};

struct program {
    struct instruction list[MAX_STAGES][MAX_INSTRUCTIONS];
    int count[MAX_STAGES];
};

static void add(struct program *program, int stage, double seconds, enum part first, int i, enum part second, int k)
{
    struct instruction *instruction = &program->list[stage][program->count[stage]++];
    *instruction = (struct instruction){seconds, {-1, -1, -1, -1}};
    if (i >= 0)
        instruction->parts[first] = i;
    if (k >= 0)
        instruction->parts[second] = k;
}

/* 1F1B as Megatron issues it. */
static void megatron(struct program *program, int p, int m, double f, double b)
{
    memset(program->count, 0, sizeof program->count);
    for (int r = 0; r < p; r++) {
        const int warm_up = p - 1 - r < m ? p - 1 - r : m, up = r < p - 1, down = r > 0;
        for (int i = 0; i < warm_up; i++) {
            add(program, r, 0, RECEIVE_DOWN, down ? i : -1, SEND_UP, -1);
            add(program, r, f, SEND_UP, -1, SEND_UP, -1);
            add(program, r, 0, SEND_UP, up ? i : -1, SEND_UP, -1);
        }
        if (warm_up < m)
            add(program, r, 0, RECEIVE_DOWN, down ? warm_up : -1, SEND_UP, -1);
        for (int i = 0; i < m - warm_up; i++) { /* send_forward_recv_backward, send_backward_recv_forward */
            add(program, r, f, SEND_UP, -1, SEND_UP, -1);
            add(program, r, 0, SEND_UP, up ? warm_up + i : -1, RECEIVE_UP, up ? i : -1);
            add(program, r, b, SEND_UP, -1, SEND_UP, -1);
            add(program, r, 0, SEND_DOWN, down ? i : -1, RECEIVE_DOWN, down && warm_up + i + 1 < m ? warm_up + i + 1 : -1);
        }
        for (int i = m - warm_up; i < m; i++) {
            add(program, r, 0, RECEIVE_UP, up ? i : -1, SEND_UP, -1);
            add(program, r, b, SEND_UP, -1, SEND_UP, -1);
            add(program, r, 0, SEND_DOWN, down ? i : -1, SEND_UP, -1);
        }
    }
}

/* TrainSchedule._step_to_micro_batch. */
static int deepspeed_micro_batch(int step, int r, int p, int *is_forward)
{
    *is_forward = step % 2 == r % 2;
    if (*is_forward)
        return step / 2 - r / 2;
    return step % 2 == 0 ? step / 2 - p + (r + 1) / 2 : (step - 1) / 2 - p + 1 + r / 2;
}

static void deepspeed(struct program *program, int p, int m, double f, double b)
{
    memset(program->count, 0, sizeof program->count);
    for (int r = 0; r < p; r++) {
        int before = -1;
        for (int step = 0; step < 2 * (m + p - 1); step++) {
            int is_forward;
            const int i = deepspeed_micro_batch(step, r, p, &is_forward), up = r < p - 1, down = r > 0;
            const int now = i >= 0 && i < m ? i : -1;
            if (is_forward) {
                add(program, r, 0, RECEIVE_DOWN, down ? now : -1, SEND_UP, -1);
                add(program, r, 0, SEND_DOWN, down ? before : -1, SEND_UP, -1);
            } else {
                add(program, r, 0, SEND_UP, up ? before : -1, SEND_UP, -1);
                add(program, r, 0, RECEIVE_UP, up ? now : -1, SEND_UP, -1);
            }
            if (now >= 0)
                add(program, r, is_forward ? f : b, SEND_UP, -1, SEND_UP, -1);
            before = now;
        }
    }
}

/* When the neighbour comes to the other end of a part; below 0: not known yet. */
struct arrivals {
    double at[MAX_STAGES][NUM_PARTS][MAX_MICRO_BATCHES];
};

static double other_end(const struct arrivals *arrivals, int stage, enum part part, int i)
{
    static const enum part others[NUM_PARTS] = {
        [SEND_UP] = RECEIVE_DOWN, [RECEIVE_DOWN] = SEND_UP, [SEND_DOWN] = RECEIVE_UP, [RECEIVE_UP] = SEND_DOWN};
    const int neighbour = part == SEND_UP || part == RECEIVE_UP ? stage + 1 : stage - 1;
    return arrivals->at[neighbour][others[part]][i];
}

/* Makespan: every stage goes on as far as what it meets is known. */
static double run(const struct program *program, int p, double Tc)
{
    static struct arrivals arrivals;
    double now[MAX_STAGES] = {0}, makespan = 0;
    int next[MAX_STAGES] = {0}, moved = 1;
    for (int r = 0; r < p; r++)
        for (int part = 0; part < NUM_PARTS; part++)
            for (int i = 0; i < MAX_MICRO_BATCHES; i++)
                arrivals.at[r][part][i] = -1;
    while (moved) {
        moved = 0;
        for (int r = 0; r < p; r++) {
            while (next[r] < program->count[r]) {
                const struct instruction *instruction = &program->list[r][next[r]];
                double end = now[r] + instruction->seconds;
                int is_known = 1;
                for (int part = 0; part < NUM_PARTS; part++)
                    if (instruction->parts[part] >= 0)
                        arrivals.at[r][part][instruction->parts[part]] = now[r];
                for (int part = 0; part < NUM_PARTS && is_known; part++) {
                    if (instruction->parts[part] < 0)
                        continue;
                    const double other = other_end(&arrivals, r, (enum part)part, instruction->parts[part]);
                    is_known = other >= 0;
                    end = fmax(end, fmax(now[r], other) + Tc);
                }
                if (!is_known)
                    break;
                now[r] = end;
                next[r]++;
                moved = 1;
            }
        }
    }
    for (int r = 0; r < p; r++) {
        assert_int_equal(next[r], program->count[r]); /* no stage waits for ever */
        makespan = fmax(makespan, now[r]);
    }
    return makespan;
}

static double schedule(int p, int m, double f, double b, double edge_seconds, double transfer_seconds)
{
    struct tpp_schedule_chunk chunks[MAX_STAGES];
    struct tpp_schedule_run *run;
    struct tpp_schedule_summary summary;
    for (int r = 0; r < p; r++)
        chunks[r] = (struct tpp_schedule_chunk){f, b, 0, 1, 0};
    const struct tpp_schedule_problem problem = {.schedule = TPP_SCHEDULE_1F1B, .pipeline_parallel = (uint32_t)p,
                                                 .virtual_pipeline_stages = 1, .num_micro_batches = (uint32_t)m,
                                                 .chunks = chunks, .edge_seconds = edge_seconds,
                                                 .transfer_seconds = transfer_seconds};
    assert_int_equal(tpp_schedule_run_new(&run, NULL), TPP_OK);
    assert_int_equal(tpp_schedule_step(run, &problem, &summary, NULL), TPP_OK);
    tpp_schedule_run_free(run);
    return summary.makespan_seconds;
}

static const struct {
    int p, m;
    double f, b, c;
} cases[] = {{2, 8, 7, 13, 0.9}, {3, 11, 7, 13, 0.9}, {4, 16, 5, 11, 0.37}, {4, 64, 5, 11, 0.21}, {7, 29, 3.1, 6.7, 0.13},
             {8, 64, 18.522, 27.423, 0.601}};

/* Up to the few transfers of fill and drain, in which the engines' senders wait and the schedule's do not. */
static void a_batched_exchange_takes_one_transfer(void **state)
{
    (void)state;
    static struct program program;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int p = cases[k].p, m = cases[k].m;
        const double f = cases[k].f, b = cases[k].b, c = cases[k].c;
        megatron(&program, p, m, f, b);
        const double issued = run(&program, p, c);
        CHECK_NUMBER(run(&program, p, 0), schedule(p, m, f, b, 0, 0), 1e-12);
        assert_true(fabs(issued - schedule(p, m, f, b, 0, c)) <= 2 * (p - 1) * c);
        /* Charged on the way and on the device, every micro-batch has a transfer too many at the least. */
        assert_true(schedule(p, m, f, b, c, c) - issued > (m - 0.5) * c);
    }
}

static void a_paired_exchange_takes_two_transfers(void **state)
{
    (void)state;
    static struct program program;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int p = cases[k].p, m = cases[k].m;
        const double f = cases[k].f, b = cases[k].b, c = cases[k].c;
        deepspeed(&program, p, m, f, b);
        CHECK_NUMBER(run(&program, p, 0), schedule(p, m, f, b, 0, 0), 1e-12);
        assert_true(fabs(run(&program, p, c) - schedule(p, m, f, b, 0, 2 * c)) <= 3 * (p - 1) * c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batched_exchange_takes_one_transfer),
        cmocka_unit_test(a_paired_exchange_takes_two_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
