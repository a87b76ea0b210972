#include "cli/sharded_timeline.h"

#include "cli/timeline.h"
#include "costmodel/base/units.h"
#include "costmodel/simulator/slices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first two reductions meet gathers that were asked for before the pass began. */
enum { FIRST_REDUCTION = 3, NUM_LAYERS = 8, LABEL_COLUMNS = 9 };

/* A stretch of the backward pass, and the row that is being drawn. */
struct stretch {
    double start_seconds, end_seconds;
    unsigned num_reductions, num_layers, num_columns;
    bool has_gathers;
    uint32_t layer; /* the latest one seen; TPP_NO_TASK: none */
    double layer_start_seconds, layer_end_seconds; /* of its tasks */
    enum tpp_track track;
    char *cells;
};

static void find_start(const struct tpp_graph_task *task, void *context)
{
    struct stretch *stretch = context;
    if (++stretch->num_reductions == FIRST_REDUCTION)
        stretch->start_seconds = task->start_seconds;
}

/* The stretch ends where layer number NUM_LAYERS + 1 begins. */
static void find_end(const struct tpp_graph_task *task, void *context)
{
    struct stretch *stretch = context;
    if (task->start_seconds < stretch->start_seconds || task->layer == TPP_NO_TASK)
        return;
    if (task->layer != stretch->layer)
        stretch->num_layers++;
    stretch->layer = task->layer;
    if (stretch->num_layers <= NUM_LAYERS)
        stretch->end_seconds = task->end_seconds;
}

static void find_gathers(const struct tpp_graph_task *task, void *context)
{
    struct stretch *stretch = context;
    stretch->has_gathers |= task->start_seconds >= stretch->start_seconds && task->start_seconds < stretch->end_seconds;
}

static void fill(struct stretch *stretch, double from_seconds, double to_seconds, const char *label, char filler)
{
    const double scale = stretch->num_columns / (stretch->end_seconds - stretch->start_seconds);
    const long from = lround((from_seconds - stretch->start_seconds) * scale);
    const long to = lround((to_seconds - stretch->start_seconds) * scale);
    const long length = (long)strlen(label) <= to - from ? (long)strlen(label) : to - from > 0;
    for (long column = from > 0 ? from : 0; column < to && column < (long)stretch->num_columns; column++)
        stretch->cells[column] = column - from < length && label[0] != '\0' ? label[column - from] : filler;
}

static void draw_transfer(const struct tpp_graph_task *task, void *context)
{
    struct stretch *stretch = context;
    char label[24] = "R";
    if (stretch->track == TPP_TRACK_GATHER && task->layer != TPP_NO_TASK)
        snprintf(label, sizeof label, "G%u", task->layer);
    if (stretch->track == TPP_TRACK_GATHER)
        fill(stretch, task->ready_seconds, task->start_seconds, "", ':');
    fill(stretch, task->start_seconds, task->end_seconds, label, stretch->track == TPP_TRACK_GATHER ? '-' : '=');
}

static void draw_layer(struct stretch *stretch)
{
    char label[24] = "";
    if (stretch->layer != TPP_NO_TASK)
        snprintf(label, sizeof label, "B%u", stretch->layer);
    fill(stretch, stretch->layer_start_seconds, stretch->layer_end_seconds, label, '=');
}

/* A layer from its first task to its last, so that what is empty is a wait between layers. */
static void draw_compute(const struct tpp_graph_task *task, void *context)
{
    struct stretch *stretch = context;
    if (task->start_seconds < stretch->start_seconds || task->start_seconds >= stretch->end_seconds)
        return;
    if (task->layer != stretch->layer || stretch->layer_end_seconds <= 0) {
        draw_layer(stretch);
        stretch->layer_start_seconds = task->start_seconds;
    }
    stretch->layer = task->layer;
    stretch->layer_end_seconds = task->end_seconds;
}

static void draw_row(const struct tpp_simulation *simulation, struct stretch *stretch, enum tpp_track track,
                     const char *name, struct tpp_text *out)
{
    memset(stretch->cells, '.', stretch->num_columns);
    stretch->cells[stretch->num_columns] = '\0';
    stretch->track = track;
    stretch->layer = TPP_NO_TASK;
    stretch->layer_start_seconds = stretch->layer_end_seconds = 0;
    tpp_simulation_visit_slices(simulation, 0, track, track == TPP_TRACK_COMPUTE ? draw_compute : draw_transfer, stretch);
    if (track == TPP_TRACK_COMPUTE)
        draw_layer(stretch);
    tpp_text_format(out, "%-*s|%s|\n", LABEL_COLUMNS - 1, name, stretch->cells);
}

static bool find_stretch(const struct tpp_simulation *simulation, struct stretch *stretch)
{
    tpp_simulation_visit_slices(simulation, 0, TPP_TRACK_REDUCE, find_start, stretch);
    if (stretch->num_reductions < FIRST_REDUCTION)
        return false;
    tpp_simulation_visit_slices(simulation, 0, TPP_TRACK_COMPUTE, find_end, stretch);
    tpp_simulation_visit_slices(simulation, 0, TPP_TRACK_GATHER, find_gathers, stretch);
    return stretch->has_gathers && stretch->num_layers >= NUM_LAYERS;
}

void tpp_sharded_timeline_append(const struct tpp_simulation *simulation, unsigned width, struct tpp_text *out)
{
    struct stretch stretch = {.layer = TPP_NO_TASK};
    char span[48];
    if (!find_stretch(simulation, &stretch))
        return;
    stretch.num_columns = (width < TPP_TIMELINE_MIN_WIDTH ? TPP_TIMELINE_MIN_WIDTH : width) - LABEL_COLUMNS - 1;
    stretch.cells = malloc(stretch.num_columns + 1);
    if (stretch.cells == NULL) {
        out->failed = true;
        return;
    }
    tpp_text_append(out, "\nGathers and reductions\n");
    draw_row(simulation, &stretch, TPP_TRACK_COMPUTE, "compute", out);
    draw_row(simulation, &stretch, TPP_TRACK_GATHER, "gather", out);
    draw_row(simulation, &stretch, TPP_TRACK_REDUCE, "reduce", out);
    free(stretch.cells);
    tpp_format_seconds(span, sizeof span, stretch.end_seconds - stretch.start_seconds);
    tpp_text_format(out, "%d layers backward: %s\n: queued, G gather, R reduction, B layer\n", NUM_LAYERS, span);
}
