#include "costmodel/simulator/slices.h"

#include "costmodel/simulator/simulation.h"

void tpp_simulation_visit_slices(const struct tpp_simulation *simulation, uint32_t stage, enum tpp_track track,
                                 void (*visit)(const struct tpp_graph_task *task, void *context), void *context)
{
    uint32_t num_tasks, num_streams;
    const struct tpp_graph_task *tasks = tpp_graph_tasks(simulation->build.graph, &num_tasks);
    const struct tpp_graph_stream *streams = tpp_graph_streams(simulation->build.graph, &num_streams);
    for (uint32_t s = 0; s < num_streams; s++) {
        if (streams[s].device != stage || streams[s].track != track)
            continue;
        for (uint32_t i = streams[s].first_task; i != TPP_NO_TASK; i = tasks[i].next_on_stream)
            if (tasks[i].end_seconds > tasks[i].start_seconds)
                visit(&tasks[i], context);
    }
}
