// `simulate` through the binary: what it prints, what it leaves, how it ends.
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "support/chrome_trace.h"
#include "support/command.h"
#include "trace/chrome_format.h"
#include "trace/summary.h"

namespace fourfold {
namespace {

constexpr const char* on_four_ranks =
    "configs/gpt-tiny.yaml --set parallel.tensor.x=2 --set parallel.data=2";

class Simulated : public FolderTest {
 protected:
  static Json json_of(const std::string& arguments) {
    const CommandResult outcome = run_fourfold("simulate " + arguments + " --format json");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    // A line before it tells which grid was chosen, where it was open.
    return parse_json(outcome.text.substr(outcome.text.find_first_of("{[")), "simulate");
  }
  static double number(const Json& json, const char* key) { return json.find(key)->as_double(); }
};

TEST_F(Simulated, a_step_is_a_calm_screen_that_names_the_machine_and_the_biggest_cost) {
  const CommandResult outcome =
      run_fourfold("simulate configs/paper/gpt-80b.yaml --machine perlmutter-40gb --verbose");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const char* words :
       {"perlmutter-40gb: Perlmutter: 1536 hosts of 4 A100 of 40 GB, Slingshot 11\n",
        "1,024 of 6,144 devices: 4 nvlink x 256 slingshot\n", "gpt-80b, 1,024 ranks\n",
        "tokens/s\n", "gemm, ", "exposed y ", "MFU ", " of 40.0 GiB a rank\n", "z.weights ",
        "1 of 1,024 ranks, "})
    EXPECT_NE(outcome.text.find(words), std::string::npos) << words << "\n" << outcome.text;
  for (const std::string& line : split(outcome.text, '\n')) EXPECT_LE(line.size(), 100U) << line;
}

TEST_F(Simulated, convolutions_that_nobody_measured_are_marked_and_measured_ones_are_not) {
  const std::string network =
      "configs/vgg-tiny.yaml --ranks 1 --set data.format=synthetic --set 'data.validation=\"\"' "
      "--set vgg.num_classes=4 --set 'vgg.picture=[16, 16, 3]' --set precision.compute=bf16";
  const Json on_h200 = json_of(network + " --machine dgx-h200");
  const Json& by_analogy = *on_h200.find("by_analogy");
  ASSERT_EQ(by_analogy.items().size(), 3U);
  double longest_s = 1;
  for (const Json& one : by_analogy.items()) {
    EXPECT_TRUE(one.find("op")->as_string().starts_with("convolution"));
    EXPECT_LE(number(one, "seconds"), longest_s);
    longest_s = number(one, "seconds");
  }
  EXPECT_GT(longest_s, 0);
  // A GPT's attention was measured on that machine, and its products have rates.
  const std::string text = std::string(on_four_ranks) + " --set precision.compute=bf16 --machine ";
  const Json gpt_on_h200 = json_of(text + "dgx-h200"), gpt_on_h100 = json_of(text + "dgx-h100");
  EXPECT_TRUE(gpt_on_h200.find("by_analogy")->items().empty());
  EXPECT_EQ(gpt_on_h100.find("by_analogy")->items().size(), 2U);
}

TEST_F(Simulated, costs_are_the_step_and_shares_are_those_of_the_peak) {
  const Json json = json_of("configs/paper/gpt-80b.yaml --machine perlmutter-40gb");
  const double step_s = number(json, "step_s");
  double sum_s = 0, exposed_s = 0;
  for (const Json& cost : json.find("costs")->items()) {
    sum_s += number(cost, "seconds");
    if (cost.find("exposed")->as_bool()) exposed_s += number(cost, "seconds");
  }
  // Spans are whole nanoseconds.
  EXPECT_NEAR(sum_s, step_s, 1e-4 * step_s);
  EXPECT_NEAR(exposed_s, number(json, "exposed_communication_s"), 1e-12 * step_s);
  // Full recomputation: between 4/3 and what attention adds to it.
  const double mfu = number(json, "mfu"), hfu = number(json, "hfu");
  EXPECT_LT(mfu, 1);
  EXPECT_GT(hfu / mfu, 1.2);
  EXPECT_LT(hfu / mfu, 4.0 / 3 + 1e-9);
  EXPECT_TRUE(json.find("fits")->as_bool());
  EXPECT_FALSE(json.find("is_bound")->as_bool());
}

/// AxoNN, table III: shares of the peak on Perlmutter, of which the machine's file knows nothing.
TEST_F(Simulated, axonns_shares_of_the_peak_are_within_15_percent_of_its_table) {
  for (const auto& [size, published] :
       {std::pair{"5b", 0.67}, {"10b", 0.63}, {"20b", 0.67}, {"40b", 0.64}, {"80b", 0.57}}) {
    const Json json = json_of(format("configs/paper/gpt-{}.yaml --machine perlmutter-40gb", size));
    EXPECT_NEAR(number(json, "hfu"), published, 0.15 * published) << size;
  }
}

/// ATP, table 3 without chunks, in units of 2^40: M4 has set what the files of IC1 and IC4 say of
/// elements and ports.
TEST_F(Simulated, atps_tflops_are_within_a_quarter_of_its_table_and_on_nvswitch_within_15_percent) {
  struct Row {
    int hidden, heads;
    std::array<double, 4> published;  // on IC1 to IC4
  };
  for (const Row& row :
       {Row{4096, 32, {3.45, 42.82, 97.45, 15.31}}, Row{8192, 64, {6.68, 73.61, 151.98, 22.47}},
        Row{12288, 96, {10.71, 96.83, 178.19, 32.52}}})
    for (std::size_t i = 0; i < row.published.size(); ++i) {
      const Json json = json_of(format(
          "configs/paper/atp-m4.yaml --machine atp-ic{} --ranks 8 --set model.hidden_size={} "
          "--set model.num_attention_heads={}",
          i + 1, row.hidden, row.heads));
      const double published = row.published[i] * 0x1p40 / 1e12;
      const bool is_nvswitch = i == 2;
      EXPECT_NEAR(number(json, "model_tflops_of_rank"), published,
                  (is_nvswitch ? 0.15 : 0.25) * published)
          << row.hidden << " on IC" << i + 1;
    }
}

TEST_F(Simulated, a_job_that_someone_sent_has_the_price_of_its_configuration) {
  const std::string machine = " --machine dgx-h100";
  const CommandResult printed = run_fourfold(std::string("program ") + on_four_ranks + " --job");
  ASSERT_EQ(printed.code, 0) << printed.text;
  write_file_atomic(path("job.txt"), printed.text);
  const Json of_text = json_of("--text " + path("job.txt") + machine);
  const Json of_config = json_of(on_four_ranks + machine);
  for (const char* key : {"step_s", "exposed_communication_s", "peak_bytes", "ranks", "flops"})
    EXPECT_EQ(*of_text.find(key), *of_config.find(key)) << key;
  EXPECT_EQ(of_text.find("mfu")->kind(), Json::Kind::null);
  EXPECT_EQ(of_config.find("mfu")->kind(), Json::Kind::number);
}

TEST_F(Simulated, its_timeline_is_a_file_that_trace_summary_reads) {
  const std::string file = path("steps.json");
  const Json json = json_of(std::string(on_four_ranks) + " --machine dgx-h100 --trace " + file);
  const std::string text = read_file(file);
  EXPECT_EQ(ChromeTraceCheck(parse_json(text, file)).faults, std::vector<std::string>());
  const trace::Timeline timeline = trace::parse_chrome_json(text, file);
  ASSERT_EQ(timeline.ranks.size(), 1U);
  EXPECT_EQ(timeline.ranks[0].host, "nvswitch 0");
  EXPECT_EQ(timeline.ranks[0].place, "rank 0 (data 0, z 0, y 0, x 0)");
  EXPECT_NEAR(trace::summarize(timeline, file).step_s, number(json, "step_s"), 1e-9);
  const Json all = json_of(std::string(on_four_ranks) + " --machine dgx-h100 --all-ranks --trace " +
                           path("all.json"));
  EXPECT_NEAR(number(all, "step_s"), number(json, "step_s"), 1e-12);
  const trace::Timeline of_all = trace::parse_chrome_json(read_file(path("all.json")), "all");
  ASSERT_EQ(of_all.ranks.size(), 4U);
  EXPECT_EQ(of_all.ranks[3].place, "rank 3 (data 1, z 0, y 0, x 1)");
  EXPECT_EQ(of_all.ranks[0], timeline.ranks[0]);
  const CommandResult summary = run_fourfold("trace summary " + file);
  EXPECT_EQ(summary.code, 0);
  EXPECT_TRUE(summary.text.starts_with("train: 1 step (1 to 1) on 1 rank")) << summary.text;
}

TEST_F(Simulated, what_was_predicted_stands_beside_what_was_measured) {
  const std::string run = path("run"), predicted = path("predicted.json");
  ASSERT_EQ(run_fourfold(format("train {} --set run.dir={} --set train.steps=4 --trace 2",
                                on_four_ranks, run))
                .code,
            0);
  json_of(format("{} --machine dgx-h100 --trace {}", on_four_ranks, predicted));
  const std::string summary = format("trace summary {} --beside ", run);
  const CommandResult outcome = run_fourfold(summary + predicted);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const char* words :
       {"predicted beside measured", "\nstep ", "\ngemm ", "\nexposed x ", "\nworst predictions "})
    EXPECT_NE(outcome.text.find(words), std::string::npos) << words << "\n" << outcome.text;
  const CommandResult json = run_fourfold(summary + predicted + " --json");
  const Json numbers = parse_json(json.text, "trace summary");
  EXPECT_EQ(numbers.find("beside")->find("worst")->items().size(), 5U);
  json_of(format("configs/gpt-tiny.yaml --machine dgx-h100 --trace {}", path("other.json")));
  const CommandResult other = run_fourfold(summary + path("other.json"));
  EXPECT_EQ(other.code, 3) << other.text;
  EXPECT_NE(other.text.find("are of different jobs"), std::string::npos) << other.text;
}

TEST_F(Simulated, a_run_says_at_its_end_how_far_the_prediction_was_off_and_in_which_work) {
  const std::string run = path("run"), page = path("page.html");
  const CommandResult outcome =
      run_fourfold(format("train {} --set run.dir={} --set train.steps=5 --set "
                          "run.machine=dgx-h100 --trace 2",
                          on_four_ranks, run));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const char* words : {"predicted ", " a step on dgx-h100, ", "median of 4", "furthest off "})
    EXPECT_NE(outcome.text.find(words), std::string::npos) << words << "\n" << outcome.text;
  // In the folder: the step that simulate predicts, and the classes of a timeline.
  const Json kept = parse_json(read_file(run + "/prediction.json"), "prediction.json");
  const Json simulated = json_of(std::string(on_four_ranks) + " --machine dgx-h100");
  EXPECT_NEAR(number(*kept.find("step"), "predicted_s"), number(simulated, "step_s"), 1e-12);
  EXPECT_GT(number(*kept.find("step"), "measured_s"), 0);
  EXPECT_EQ(kept.find("traced_steps")->as_integer(), 2);
  EXPECT_EQ(kept.find("worst")->items().size(), 5U);
  double predicted_s = 0;
  for (const Json& kind : kept.find("kinds")->items()) predicted_s += number(kind, "predicted_s");
  EXPECT_NEAR(predicted_s, number(simulated, "step_s"), 1e-8);
  // In the timeline, which summary reads without another file.
  const std::string steps = run + "/traces/steps.json";
  const std::string text = read_file(steps);
  EXPECT_EQ(ChromeTraceCheck(parse_json(text, steps)).faults, std::vector<std::string>());
  EXPECT_TRUE(trace::parse_timeline_file(text, steps).predicted.has_value());
  const CommandResult summary = run_fourfold("trace summary " + run);
  for (const char* words : {"predicted beside measured", "\nstep ", "\nworst predictions "})
    EXPECT_NE(summary.text.find(words), std::string::npos) << words << "\n" << summary.text;
  const Json numbers =
      parse_json(run_fourfold("trace summary " + run + " --json").text, "trace summary");
  EXPECT_EQ(*numbers.find("beside")->find("worst"), *kept.find("worst"));
  // And on the page.
  ASSERT_EQ(run_fourfold(format("report {} -o {}", run, page)).code, 0);
  const std::string html = read_file(page);
  for (const char* words : {"Predicted beside measured", "On dgx-h100; ", "Worst predictions"})
    EXPECT_NE(html.find(words), std::string::npos) << words;
}

TEST_F(Simulated, a_run_that_is_not_traced_knows_its_step_and_one_without_a_machine_nothing) {
  const auto train = [&](const std::string& run, const std::string& more) {
    const CommandResult outcome = run_fourfold(
        format("train {} --set run.dir={} --set train.steps=4 {}", on_four_ranks, path(run), more));
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    return outcome.text;
  };
  const std::string named = train("named", "--set run.machine=dgx-h100");
  for (const char* words : {"median of 3", "exposed communication ", "--trace N tells"})
    EXPECT_NE(named.find(words), std::string::npos) << words << "\n" << named;
  const Json kept = parse_json(read_file(path("named/prediction.json")), "prediction.json");
  EXPECT_EQ(kept.find("traced_steps")->as_integer(), 0);
  EXPECT_EQ(kept.find("kinds")->items().size(), 2U);
  const std::string none = train("none", "");
  EXPECT_EQ(none.find("furthest off"), std::string::npos) << none;
  EXPECT_FALSE(file_exists(path("none/prediction.json")));
  const std::string small = train("small", "--set run.machine=workstation");
  EXPECT_NE(small.find("no time of a step is predicted"), std::string::npos) << small;
  EXPECT_FALSE(file_exists(path("small/prediction.json")));
  // A run in place of another leaves nothing of it.
  train("named", "--overwrite");
  EXPECT_FALSE(file_exists(path("named/prediction.json")));
}

TEST_F(Simulated, a_sweep_has_a_line_for_each_number_of_ranks_and_says_which_cannot_be) {
  const std::string sweep =
      "configs/paper/gpt-80b.yaml --machine perlmutter-40gb --sweep ranks=64,100,1024";
  const CommandResult outcome = run_fourfold("simulate " + sweep);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const char* words : {"\n      64  ", "\n     100  parallel.tensor", "\n   1,024  "})
    EXPECT_NE(outcome.text.find(words), std::string::npos) << words << "\n" << outcome.text;
  for (const std::string& line : split(outcome.text, '\n')) EXPECT_LE(line.size(), 100U) << line;
  const Json list = json_of(sweep);
  ASSERT_EQ(list.items().size(), 3U);
  const Json one = json_of("configs/paper/gpt-80b.yaml --machine perlmutter-40gb");
  EXPECT_EQ(*list.items()[2].find("step_s"), *one.find("step_s"));
  EXPECT_NE(list.items()[1].find("error"), nullptr);
}

TEST_F(Simulated, mistakes_end_with_their_code_and_one_message_that_says_what_to_do) {
  write_file_atomic(path("cut.txt"), "job text version 1\njob of 4 ranks in 1 classes\n");
  write_file_atomic(path("later.txt"), "job text version 9\njob of 4 ranks in 1 classes\n");
  write_file_atomic(path("earlier.txt"), "job of 4 ranks in 1 classes\n");
  write_file_atomic(path("program.txt"), "program train\n");
  struct Mistake {
    std::string arguments;
    int code;
    std::string says;
  };
  const std::string tiny = "configs/gpt-tiny.yaml ";
  for (const auto& [arguments, code, says] : std::vector<Mistake>{
           {"", 2, "either CONFIG or --text"},
           {tiny, 2, "perlmutter-40gb"},
           {tiny + "--machine perlmuter-40gb", 2, "did you mean perlmutter-40gb"},
           {tiny + "--machine no-such.yaml", 2, "no-such.yaml"},
           {tiny + "--machine workstation --set parallel.tensor.x=4", 5,
            "has room for 2 ranks, the job has 4"},
           {tiny + "--machine workstation --ranks 3", 5, "train.global_batch_size"},
           {tiny + "--machine dgx-h100 --sweep 1,2", 2, "ranks=64,128"},
           {tiny + "--machine dgx-h100 --sweep ranks=1,x", 2, "ranks=64,128"},
           {tiny + "--machine dgx-h100 --sweep ranks=1 --ranks 2", 2, "--sweep"},
           {tiny + "--machine dgx-h100 --format yaml", 2, "text"},
           {"--text " + path("cut.txt") + " --ranks 2 --machine dgx-h100", 2, "--text"},
           {"--text " + path("cut.txt") + " --machine dgx-h100", 2, "cut.txt:"},
           {"--text " + path("later.txt") + " --machine dgx-h100", 2,
            "later.txt:1: read '9', expected 'job text version 1'"},
           {"--text " + path("earlier.txt") + " --machine dgx-h100", 2,
            "earlier.txt:1: read 'of', expected 'job text version 1'"},
           {"--text " + path("program.txt") + " --machine dgx-h100", 2, "program CONFIG --job"},
           {tiny + "--machine dgx-h100 --trace " + path("none/steps.json"), 6, "none"}}) {
    const CommandResult outcome = run_fourfold("simulate " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(says), std::string::npos) << arguments << "\n" << outcome.text;
    EXPECT_TRUE(outcome.text.starts_with("error: ")) << arguments << "\n" << outcome.text;
  }
}

}  // namespace
}  // namespace fourfold
