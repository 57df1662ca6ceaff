// Pages, curves and the reading of metrics.
#include "report/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "report/chart.h"
#include "report/chart_data.h"
#include "report/decimate.h"
#include "report/html_text.h"
#include "unit/checkpoint/temporary_folder.h"

namespace fourfold::report {
namespace {

TEST(Escaped, nothing_of_a_text_is_markup) {
  EXPECT_EQ(escaped("<script>alert(\"1\")&'</script>"),
            "&lt;script&gt;alert(&quot;1&quot;)&amp;&#39;&lt;/script&gt;");
  EXPECT_EQ(escaped("tab\tline\n\x01\x7f"), "tab\tline\n\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST(Escaped, what_is_not_utf8_is_replaced) {
  const std::string bad = "\xEF\xBF\xBD";
  for (const char* text : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF",
                           "\xE2\x82", "\x80"}) {
    const std::string shown = escaped(text);
    EXPECT_EQ(shown.find_first_not_of(bad), std::string::npos) << shown;
  }
}

TEST(Decimate, least_and_largest_of_every_stretch_are_kept) {
  std::vector<Point> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 0.01)});
  points[54321].y = 99;
  points[77777].y = -99;
  const auto columns = decimate(points, 300);
  EXPECT_LE(columns.size(), 300U);
  std::int64_t count = 0;
  double least = 0, most = 0;
  for (const Column& column : columns) {
    count += column.count;
    least = std::min(least, column.least);
    most = std::max(most, column.most);
    EXPECT_LE(column.least, column.mean);
    EXPECT_LE(column.mean, column.most);
  }
  EXPECT_EQ(count, 100000);
  EXPECT_EQ(least, -99);
  EXPECT_EQ(most, 99);
  EXPECT_TRUE(decimate({}, 5).empty());
  const Point one{3, 4};
  EXPECT_EQ(decimate(std::span(&one, 1), 5).size(), 1U);
}

TEST(Axis, marks_are_round_and_enclose_what_is_shown) {
  for (const auto& [least, most] : std::vector<std::pair<double, double>>{
           {0, 1}, {2.1, 4.3}, {-3, 7e5}, {1e-9, 3e-9}, {5, 5}, {0, 0}, {-2, -2}, {1e300, 1e301}}) {
    const AxisScale axis = make_axis(least, most, 5);
    EXPECT_LE(axis.least, least + 1e-9 * std::abs(least));
    EXPECT_GE(axis.most, most - 1e-9 * std::abs(most));
    EXPECT_GE(axis.marks().size(), 2U);
    EXPECT_LE(axis.marks().size(), 12U);
  }
  EXPECT_EQ(make_axis(0, 200000, 5).label(50000), "50k");
  EXPECT_EQ(make_axis(2, 4.5, 5).label(2.5), "2.5");
  EXPECT_EQ(make_axis(0, 6e-4, 5).label(2e-4), "0.0002");
  EXPECT_EQ(make_log_axis(0.3, 55, 4).marks(), (std::vector<double>{0.1, 1, 10, 100}));
}

TEST(Chart, it_has_a_point_for_each_value_and_none_for_what_is_not_finite) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Point> points = {{1, 2}, {2, inf}, {3, NAN}, {4, 1}};
  const ChartCurve curve{.name = "a<b", .points = points, .color = 3, .has_dots = true};
  const std::string svg = draw_chart(std::span(&curve, 1), "step", {});
  EXPECT_NE(svg.find("<title>a&lt;b</title>"), std::string::npos);
  std::size_t dots = 0;
  for (std::size_t at = svg.find("<circle"); at != svg.npos; at = svg.find("<circle", at + 1))
    ++dots;
  EXPECT_EQ(dots, 2U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  const ChartCurve none{.name = "none", .points = {}};
  EXPECT_EQ(draw_chart(std::span(&none, 1), "step", {}), "");
}

TEST(Chart, a_long_curve_stays_small_and_shows_its_spikes) {
  std::vector<Point> points;
  for (int i = 0; i < 1000000; ++i) points.push_back({static_cast<double>(i), 1});
  points[500000].y = 100;
  const ChartCurve curve{.name = "long", .points = points};
  const std::string svg = draw_chart(std::span(&curve, 1), "step", {.height = 200});
  EXPECT_LT(svg.size(), 40000U);
  EXPECT_NE(svg.find("<polygon class=\"band c0\""), std::string::npos);
  EXPECT_NE(svg.find(",10.0 "), std::string::npos) << "the top of the drawing is reached";
}

TEST(ReadMetrics, torn_lines_and_steps_done_twice_are_told_from_the_rest) {
  const TemporaryFolder folder;
  write_bytes(folder.file("m"),
              "{\"step\":1,\"loss\":4.0,\"step_time_s\":2.0,\"tokens_per_s\":10.0}\n"
              "{\"step\":2,\"loss\":3.0,\"val_loss\":3.5}\n"
              "{\"step\":3,\"lo\n"
              "\xff\xfe\n"
              "[1]\n"
              "{\"loss\":1.0}\n"
              "{\"step\":3,\"loss\":null}\n"
              "{\"step\":2,\"loss\":2.5}\n"  // a run that went on after step 1
              "{\"step\":3,\"loss\":2.0,\"val_loss\":null,\"memory_bytes\":7}\n"
              "{\"step\":4,\"loss\":1");
  const Metrics m = read_metrics(folder.file("m"));
  EXPECT_EQ(m.unread_lines, 5);
  EXPECT_EQ(m.not_finite, 2) << "of losses and of losses that validate";
  EXPECT_EQ(m.steps, 3);
  ASSERT_EQ(m.loss.size(), 3U);
  EXPECT_EQ(m.loss[1].y, 2.5);
  EXPECT_TRUE(m.val_loss.empty());
  EXPECT_EQ(m.items, 20);
  EXPECT_EQ(m.memory_bytes, 7);
  EXPECT_EQ(m.fault, "");
  EXPECT_NE(read_metrics(folder.file("none")).fault, "");
  write_bytes(folder.file("empty"), "");
  EXPECT_NE(read_metrics(folder.file("empty")).fault, "");
}

TEST(ReadMetrics, evaluations_are_compared_by_the_batches_that_all_of_them_take) {
  const TemporaryFolder folder;
  write_bytes(folder.file("m"),
              "{\"step\":10,\"loss\":3.0,\"val_loss\":3.5}\n"
              "{\"step\":20,\"loss\":2.0,\"val_loss\":2.5,\"val_loss_compared\":3.0}\n");
  const Metrics m = read_metrics(folder.file("m"));
  ASSERT_EQ(m.val_loss.size(), 2U);
  EXPECT_EQ(m.val_loss[1].y, 3.0);
  ASSERT_TRUE(m.val_loss_of_all.has_value());
  EXPECT_EQ(m.val_loss_of_all->y, 2.5);
  report::Run run;
  run.name = "one";
  run.metrics = m;
  const std::string page = make_page(std::span(&run, 1), "Fourfold");
  EXPECT_NE(page.find("3.0000<small>at step 20; 2.5000 of the whole split at step 20</small>"),
            std::string::npos)
      << page.substr(page.find("Best validation"), 200);
  write_bytes(folder.file("again"),
              read_file(folder.file("m")) + "{\"step\":20,\"loss\":2.0,\"val_loss\":2.75}\n");
  EXPECT_FALSE(read_metrics(folder.file("again")).val_loss_of_all.has_value())
      << "the step was done again";
}

TEST(ReadMetrics, a_loss_of_the_averages_of_the_weights_is_told_as_that) {
  const TemporaryFolder folder;
  const auto page_of = [&](const std::string& lines) {
    write_bytes(folder.file("m"), lines);
    report::Run run;
    run.name = "one";
    run.metrics = read_metrics(folder.file("m"));
    return make_page(std::span(&run, 1), "Fourfold");
  };
  const std::string averages =
      "{\"step\":1,\"loss\":3.0,\"val_loss\":3.5,\"val_weights\":\"averages\"}\n";
  const std::string told = "3.5000<small>at step 1, of the averages of the weights</small>";
  EXPECT_NE(page_of(averages).find(told), std::string::npos);
  EXPECT_EQ(page_of("{\"step\":1,\"loss\":3.0,\"val_loss\":3.5}\n").find("of the averages"),
            std::string::npos);
  EXPECT_EQ(page_of(averages + "{\"step\":2,\"loss\":3.0,\"val_loss\":3.5}\n").find("averages"),
            std::string::npos)
      << "the last evaluation counts";
}

TEST(Page, what_was_predicted_stands_beside_what_was_measured) {
  report::Run run;
  run.name = "one";
  EXPECT_EQ(make_page(std::span(&run, 1), "Fourfold").find("Predicted beside measured"),
            std::string::npos);
  run.predicted = PredictedStep{.machine = "a<b",
                                .step = {"step", 0.5e-3, 1e-3},
                                .num_steps = 6,
                                .last_step = 1007,
                                .num_traced = 2,
                                .kinds = {{"exposed z.weights", 0.25e-3, 0}},
                                .worst = {{"contract a, b -> c", 0.125e-3, 0.5e-3}}};
  const std::string page = make_page(std::span(&run, 1), "Fourfold");
  for (const char* part :
       {"<h2>Predicted beside measured</h2>",
        "On a&lt;b; the step is the median of 6 steps up to step 1,007. Work is the mean of 2 "
        "steps that were traced.",
        "<td>step</td><td>0.500</td><td>1.000</td><td>0.50</td>",
        "<td>exposed z.weights</td><td>0.250</td><td>0.000</td><td>&ndash;</td>",
        "<td>contract a, b -&gt; c</td><td>0.125</td><td>0.500</td><td>0.25</td>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  run.predicted->num_traced = 0;
  run.predicted->worst.clear();
  const std::string untraced = make_page(std::span(&run, 1), "Fourfold");
  EXPECT_NE(untraced.find("train --trace N tells"), std::string::npos);
  EXPECT_EQ(untraced.find("Worst predictions"), std::string::npos);
}

TEST(Chart, a_few_values_far_above_the_others_do_not_flatten_them) {
  std::vector<Point> points;
  for (int step = 1; step <= 200; ++step)
    points.push_back({static_cast<double>(step), 3 - 0.005 * step});
  const ChartCurve plain{.name = "run", .points = points};
  const std::string before = draw_chart(std::span(&plain, 1), "step", {.may_clip = true});
  EXPECT_EQ(before.find("up to"), std::string::npos);
  points[100].y = 95;
  const ChartCurve curve{.name = "run", .points = points};
  const std::string svg = draw_chart(std::span(&curve, 1), "step", {.may_clip = true});
  EXPECT_NE(svg.find(">up to 95</text>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find(">40</text>"), std::string::npos) << "the axis is that of the others";
  EXPECT_NE(draw_chart(std::span(&curve, 1), "step", {}).find(">40</text>"), std::string::npos);
}

TEST(Chart, values_are_shown_where_one_points) {
  const std::vector<Point> a = {{1, 4}, {2, 3.25}, {3, 2}}, b = {{2, 3.5}};
  const std::vector<ChartCurve> curves = {{.name = "a<b", .points = a},
                                          {.name = "validation", .points = b}};
  const std::string svg = draw_chart(curves, "step", {});
  EXPECT_NE(svg.find("<title>step 2\na&lt;b: 3.25\nvalidation: 3.5</title>"), std::string::npos)
      << svg;
  EXPECT_NE(svg.find("<title>step 3\na&lt;b: 2</title>"), std::string::npos) << svg;
}

TEST(Chart, marks_stand_where_they_belong_and_nowhere_beyond_the_curves) {
  const std::vector<Point> points = {{1, 4}, {3, 2}};
  const ChartCurve curve{.name = "a", .points = points};
  const std::vector<ChartMark> marks = {{2, "a<b", 3}, {7, "beyond", 0}};
  const std::string svg = draw_chart(std::span(&curve, 1), "step", {}, marks);
  // The drawing reaches from 46 to 382.
  EXPECT_NE(svg.find("<line class=\"mark c3\" x1=\"214.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>a&lt;b</title></line>"), std::string::npos);
  EXPECT_EQ(svg.find("beyond"), std::string::npos);
}

TEST(ChartData, every_point_of_a_short_curve_and_the_ends_of_a_long_one_are_there) {
  const std::vector<Point> few = {{1, 4.25}, {2, NAN}, {3, 2}};
  std::vector<Point> many;
  for (int i = 0; i < 100000; ++i) many.push_back({static_cast<double>(i), 1});
  many[50000].y = 1e6;
  const std::vector<ChartCurve> curves = {{.name = "a\"b", .points = few, .color = 2},
                                          {.name = "long", .points = many, .has_dots = true}};
  const std::vector<std::size_t> runs = {1, 0};
  const std::string text = chart_data(curves, runs);
  EXPECT_EQ(text.substr(0, text.find("},{")),
            R"([{"name":"a\"b","color":2,"run":1,"dots":false,"x":[1,3],"y":[4.25,2])");
  const Json all = parse_json(text, "");
  const Json& longest = all.items()[1];
  ASSERT_EQ(longest.find("x")->items().size(), 3000U);
  double most = 0;
  for (const Json& value : longest.find("most")->items()) most = std::max(most, value.as_double());
  EXPECT_EQ(most, 1e6);
}

TEST(ReadMetrics, tokens_are_counted_also_where_a_session_reads_more_of_them_a_step) {
  const TemporaryFolder folder;
  std::string lines;
  for (int step = 3; step <= 8; ++step)
    lines += format("{{\"step\":{},\"step_time_s\":0.3,\"tokens_per_s\":{}}}\n", step,
                    (step < 6 ? 100 : 200) / 0.3);
  write_bytes(folder.file("m"), lines);
  const Metrics m = read_metrics(folder.file("m"));
  std::vector<std::pair<double, double>> read;
  for (const Point& point : m.items_read) read.emplace_back(point.x, point.y);
  const std::vector<std::pair<double, double>> expected = {{0, 0}, {5, 500}, {8, 1100}};
  EXPECT_EQ(read, expected);
}

TEST(ReadMetrics, a_text_of_a_step_that_was_done_again_is_the_last_one) {
  const TemporaryFolder folder;
  write_bytes(folder.file("m"),
              "{\"step\":2,\"sample\":\"old 2\"}\n{\"step\":4,\"sample\":\"old 4\"}\n"
              "{\"step\":3}\n{\"step\":4,\"sample\":\"new 4\"}\n");
  const Metrics m = read_metrics(folder.file("m"));
  ASSERT_EQ(m.samples.size(), 2U);
  EXPECT_EQ(m.samples[0].text, "old 2");
  EXPECT_EQ(m.samples[1].text, "new 4");
}

TEST(Page, the_share_of_the_peak_is_that_of_the_throughput_beside_it) {
  const TemporaryFolder folder;
  write_bytes(folder.file("m"),
              "{\"step\":1,\"loss\":4,\"step_time_s\":3.0,\"tokens_per_s\":10.0,\"mfu\":0.2}\n"
              "{\"step\":2,\"loss\":4,\"step_time_s\":1.0,\"tokens_per_s\":30.0,\"mfu\":1.12}\n"
              "{\"step\":3,\"loss\":4,\"step_time_s\":1.0,\"tokens_per_s\":30.0,\"mfu\":0.6}\n");
  report::Run run;
  run.name = "run";
  run.metrics = read_metrics(folder.file("m"));
  EXPECT_EQ(run.metrics.mfu.size(), 2U) << "one was measured against too low a peak";
  const std::string page = make_page(std::span(&run, 1), "test");
  EXPECT_NE(page.find("18 tokens/s<small>MFU 30.0%</small>"), std::string::npos) << page;
}

TEST(Page, a_run_that_computes_again_has_the_share_of_the_hardware_too) {
  const TemporaryFolder folder;
  write_bytes(folder.file("m"),
              "{\"step\":1,\"step_time_s\":3.0,\"tokens_per_s\":10.0,\"mfu\":0.2,\"hfu\":0.3}\n"
              "{\"step\":2,\"step_time_s\":1.0,\"tokens_per_s\":30.0,\"mfu\":0.6,\"hfu\":0.7}\n");
  report::Run run;
  run.name = "run";
  run.metrics = read_metrics(folder.file("m"));
  const std::string page = make_page(std::span(&run, 1), "test");
  EXPECT_NE(page.find("15 tokens/s<small>MFU 30.0%, HFU 40.0%</small>"), std::string::npos) << page;
  EXPECT_NE(page.find("Hardware FLOP utilization"), std::string::npos);
}

report::Run hostile_run() {
  const std::string evil = "</style><script>alert(1)</script>\"'&\x80";
  report::Run run;
  run.name = run.path = run.plan = run.sample = evil;
  run.metrics.loss = {{1, 3}, {2, 2}};
  run.metrics.steps = 2;
  run.metrics.samples = {{1, evil}};
  run.sessions.resize(2);
  run.sessions[1].first_step = 1;
  for (RunSession& session : run.sessions) {
    session.command = evil;
    session.changes = {evil};
  }
  run.config = {{evil, evil}};
  run.environment = {{evil, evil}};
  run.checkpoints = {{2, 100, evil}};
  run.notes = {evil};
  return run;
}

TEST(Page, texts_of_a_run_are_shown_and_never_interpreted) {
  const std::vector<report::Run> runs = {hostile_run(), hostile_run()};
  for (const std::size_t count : {1U, 2U}) {
    const std::string page = make_page(std::span(runs).first(count), "<b>");
    EXPECT_EQ(page.find("<script"), page.rfind("<script")) << "the page's own, and no other";
    EXPECT_EQ(page.find("<script"), page.find("<script type=\"module\">\nconst left"));
    EXPECT_EQ(page.find("<b>"), std::string::npos);
    EXPECT_EQ(page.find('\x80'), page.npos);
    EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
    // Nothing comes from elsewhere, or could.
    EXPECT_EQ(page.find("http"), page.find("http-equiv=\"Content-Security-Policy\" content=\""
                                           "default-src 'none'; "));
    EXPECT_EQ(page.find("http"), page.rfind("http"));
    for (const char* word : {"src=", "@import", "url("})
      EXPECT_EQ(page.find(word), std::string::npos) << word;
  }
}

TEST(Page, a_run_without_anything_still_has_a_page) {
  report::Run run;
  run.name = "empty";
  run.notes = {"there is no metrics.jsonl"};
  const std::string page = make_page(std::span(&run, 1), "");
  EXPECT_NE(page.find("there is no metrics.jsonl"), std::string::npos);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
}

TEST(Page, several_runs_are_compared_in_what_differs) {
  std::vector<report::Run> runs(2);
  runs[0].name = "first";
  runs[1].name = "second";
  for (report::Run& run : runs) {
    run.config = {{"optimizer.lr", run.name}, {"train.steps", "7"}};
    run.metrics.loss = {{1, 3}, {2, 2}};
  }
  const std::string page = make_page(runs, "");
  const std::size_t differences = page.find("Configuration: differences"),
                    all = page.find("<details", differences);
  const std::string shown = page.substr(differences, all - differences);
  EXPECT_NE(shown.find("optimizer.lr"), std::string::npos);
  EXPECT_EQ(shown.find("train.steps"), std::string::npos);
  EXPECT_NE(page.find("line c0"), std::string::npos);
  EXPECT_NE(page.find("line c1"), std::string::npos);
}

}  // namespace
}  // namespace fourfold::report
