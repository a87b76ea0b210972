#include "costmodel/runs/run_report.h"

#include "costmodel/base/units.h"

#include <math.h>
#include <string.h>

#define PERCENT 100.0
#define SIDE 640             /* of the square that the points lie in */
#define MARGIN 64            /* left of it and below, for the numbers */
#define GOLDEN_ANGLE 137.508 /* colours of neighbours in the list are far apart */

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<title>tp-plan validate</title>\n<style>\n"
    "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222}\n"
    "table{border-collapse:collapse;margin:1em 0}\n"
    "th,td{padding:.15em .7em;text-align:right;border-bottom:1px solid #ddd}\n"
    "th:first-child,td:first-child{text-align:left}\n"
    "svg text{font:12px system-ui,sans-serif}\n"
    "circle{fill-opacity:.6}circle:hover{fill-opacity:1;stroke:#000}\n"
    "</style>\n</head>\n<body>\n<h1>Predicted and measured training runs</h1>\n";

/* Text between tags and inside quotes: neither a tag, nor a quote, nor a control character, nor broken UTF-8 comes
 * through. */
static void append_escaped(const char *string, struct tpp_text *html)
{
    for (size_t left = strlen(string); left > 0;) {
        const size_t length = tpp_utf8_length(string, left);
        const unsigned char first = (unsigned char)*string;
        if (length == 0 || first < 0x20 || first == 0x7f)
            tpp_text_append(html, "?");
        else if (first == '&')
            tpp_text_append(html, "&amp;");
        else if (first == '<')
            tpp_text_append(html, "&lt;");
        else if (first == '>')
            tpp_text_append(html, "&gt;");
        else if (first == '"')
            tpp_text_append(html, "&quot;");
        else if (first == '\'')
            tpp_text_append(html, "&#39;");
        else
            tpp_text_append_bytes(html, string, length);
        string += length > 0 ? length : 1;
        left -= length > 0 ? length : 1;
    }
}

static bool is_point(const struct tpp_run *run, const struct tpp_run_prediction *prediction)
{
    return tpp_run_error(run, prediction).has_step && isfinite(prediction->step_seconds) &&
           prediction->step_seconds > 0;
}

struct axis { /* both axes: powers of ten around all times */
    int first, last;
};

static struct axis find_axis(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < count; i++)
        if (is_point(&runs[i], &predictions[i])) {
            least = fmin(least, fmin(runs[i].measured_step_seconds, predictions[i].step_seconds));
            most = fmax(most, fmax(runs[i].measured_step_seconds, predictions[i].step_seconds));
        }
    if (!(most > 0))
        return (struct axis){0, 1};
    struct axis axis = {(int)floor(log10(least)), (int)ceil(log10(most))};
    axis.last += axis.last == axis.first;
    return axis;
}

static double place(struct axis axis, double seconds)
{
    return SIDE * (log10(seconds) - axis.first) / (axis.last - axis.first);
}

static double x_of(struct axis axis, double seconds)
{
    return MARGIN + place(axis, seconds);
}

static double y_of(struct axis axis, double seconds)
{
    return SIDE - place(axis, seconds);
}

static void append_grid(struct axis axis, struct tpp_text *html)
{
    for (int decade = axis.first; decade <= axis.last; decade++) {
        const double seconds = pow(10, decade), x = x_of(axis, seconds), y = y_of(axis, seconds);
        tpp_text_format(html,
                        "<line x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>"
                        "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                        x, x, SIDE, MARGIN, y, MARGIN + SIDE, y, x, SIDE + 18, seconds, MARGIN - 6, y + 4, seconds);
    }
    tpp_text_format(html,
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">measured, seconds a step</text>"
                    "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">predicted, seconds a "
                    "step</text>\n",
                    MARGIN + SIDE / 2, SIDE + 42, SIDE / 2);
}

/* predicted = factor * measured over the whole square; what leaves it is cut off. */
static void append_diagonal(struct axis axis, double factor, const char *style, struct tpp_text *html)
{
    const double least = pow(10, axis.first), most = pow(10, axis.last);
    tpp_text_format(html, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s clip-path=\"url(#square)\"/>\n",
                    x_of(axis, least), y_of(axis, factor * least), x_of(axis, most), y_of(axis, factor * most), style);
}

static size_t group_index(const struct tpp_run_report *report, const char *group)
{
    size_t index = 0;
    while (index < report->num_groups && strcmp(report->groups[index].name, group) != 0)
        index++;
    return index;
}

static void append_colour(size_t group, struct tpp_text *html)
{
    tpp_text_format(html, "hsl(%.0f,70%%,%d%%)", fmod((double)group * GOLDEN_ANGLE, 360), group % 2 == 0 ? 40 : 55);
}

static void append_point(const struct tpp_run_report *report, struct axis axis, const struct tpp_run *run,
                         const struct tpp_run_prediction *prediction, struct tpp_text *html)
{
    char measured[32], predicted[32];
    tpp_text_format(html, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"", x_of(axis, run->measured_step_seconds),
                    y_of(axis, prediction->step_seconds));
    append_colour(group_index(report, run->group), html);
    tpp_text_append(html, "\"><title>");
    append_escaped(run->group, html);
    tpp_text_append(html, "/");
    append_escaped(run->id, html);
    tpp_text_format(html, ": %s measured, %s predicted (%+.1f %%)</title></circle>\n",
                    tpp_format_seconds(measured, sizeof measured, run->measured_step_seconds),
                    tpp_format_seconds(predicted, sizeof predicted, prediction->step_seconds),
                    PERCENT * tpp_run_error(run, prediction).step_fraction);
}

static void append_picture(const struct tpp_run_report *report, const struct tpp_run *runs,
                           const struct tpp_run_prediction *predictions, size_t count, struct tpp_text *html)
{
    const struct axis axis = find_axis(runs, predictions, count);
    tpp_text_format(html,
                    "<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\" aria-label=\"measured against predicted step "
                    "seconds\">\n<defs><clipPath id=\"square\"><rect x=\"%d\" y=\"0\" width=\"%d\" "
                    "height=\"%d\"/></clipPath></defs>\n",
                    MARGIN + SIDE + 16, SIDE + MARGIN, MARGIN + SIDE + 16, MARGIN, SIDE, SIDE);
    append_grid(axis, html);
    append_diagonal(axis, 1, "stroke=\"#333\"", html);
    append_diagonal(axis, 1.1, "stroke=\"#999\" stroke-dasharray=\"4 4\"", html);
    append_diagonal(axis, 0.9, "stroke=\"#999\" stroke-dasharray=\"4 4\"", html);
    for (size_t i = 0; i < count; i++)
        if (is_point(&runs[i], &predictions[i]))
            append_point(report, axis, &runs[i], &predictions[i], html);
    tpp_text_append(html, "</svg>\n<p>Dashed: 10 % too slow and too fast. A point tells its run when the pointer is on "
                          "it.</p>\n");
}

static void append_row(const char *name, const size_t *colour, const struct tpp_run_figures *figures,
                       struct tpp_text *html)
{
    tpp_text_append(html, "<tr><td>");
    if (colour != NULL) {
        tpp_text_append(html, "<span style=\"color:");
        append_colour(*colour, html);
        tpp_text_append(html, "\">&#9679;</span> ");
    }
    append_escaped(name, html);
    tpp_text_format(html,
                    "</td><td>%zu</td><td>%+.1f %%</td><td>%.1f %%</td><td>%.1f %%</td><td>%.0f %%</td><td>%.1f "
                    "%%</td><td>%.0f %%</td><td>%.1f %%</td></tr>\n",
                    figures->step.n, PERCENT * figures->step.bias, PERCENT * figures->step.mean_abs,
                    PERCENT * figures->step.median_abs, PERCENT * figures->step.within_10pct,
                    PERCENT * figures->step.max_abs, PERCENT * figures->step.interval_coverage,
                    PERCENT * figures->naive.mean_abs);
}

static void append_sets(const char *title, const struct tpp_run_figures *sets, size_t count, bool has_colours,
                        struct tpp_text *html)
{
    tpp_text_format(html,
                    "<table>\n<tr><th>%s</th><th>runs</th><th>bias</th><th>mean error</th><th>median</th><th>within 10 "
                    "%%</th><th>worst</th><th>in the 90 %% interval</th><th>with one MFU</th></tr>\n",
                    title);
    for (size_t i = 0; i < count; i++)
        if (sets[i].step.n > 0)
            append_row(sets[i].name, has_colours ? &i : NULL, &sets[i], html);
    tpp_text_append(html, "</table>\n");
}

void tpp_run_report_append_html(const struct tpp_run_report *report, const struct tpp_run *runs,
                                const struct tpp_run_prediction *predictions, size_t count, struct tpp_text *html)
{
    const struct tpp_run_ranking *ranking = &report->all.ranking;
    tpp_text_append(html, head);
    append_picture(report, runs, predictions, count, html);
    append_sets("group", report->groups, report->num_groups, true, html);
    append_sets("all", &report->all, 1, false, html);
    tpp_text_format(
        html,
        "<p>Plain mean over groups of their mean error: %.1f %%; with one MFU for each GPU type, the median of "
        "these runs: %.1f %%.",
        PERCENT * report->all.step.macro_mean_abs, PERCENT * report->all.naive.macro_mean_abs);
    if (ranking->pairs > 0)
        tpp_text_format(html,
                        " %zu of %zu pairs of plans of one job in the right order; the plan chosen loses %.1f %%.",
                        ranking->num_right, ranking->pairs, PERCENT * ranking->mean_regret_fraction);
    tpp_text_append(html, "</p>\n");
    append_sets("GPU", report->gpus, report->num_gpus, false, html);
    append_sets("framework", report->frameworks, report->num_frameworks, false, html);
    tpp_text_append(html, "</body>\n</html>\n");
}
