// `fourfold bench`: what it prints, and the table of kernels that it writes, from measuring to the
// run that uses it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "machine/known_clusters.h"
#include "machine/mesh_bandwidth.h"
#include "support/pattern.h"
#include "support/tables_of_kernels.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

class Bench : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::temp_directory_path() / format("fourfold-bench-{}-{}", info->name(), getpid());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  /// Exit code; what it printed is in `text_`.
  int run(const std::string& arguments) {
    return run_command_line(format("{} {}", FOURFOLD_BINARY, arguments));
  }
  int run_command_line(const std::string& line) {
    const std::string command = format("cd {} && {} 2>&1", FOURFOLD_SOURCE_DIR, line);
    FILE* pipe = popen(command.c_str(), "r");
    text_.clear();
    std::array<char, 4096> buffer{};
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
      text_.append(buffer.data(), n);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run_with(const std::string& variable, const std::string& arguments) {
    return run_command_line(format("{} {} {}", variable, FOURFOLD_BINARY, arguments));
  }
  /// The table of this machine in the cache of these tests.
  std::string cached() const {
    for (const auto& entry : fs::directory_iterator(path("cache") + "/fourfold"))
      if (entry.path().filename().string().starts_with("kernels-")) return entry.path().string();
    ADD_FAILURE() << "the cache has a table";
    return "";
  }
  int train(const std::string& table, int threads) {
    return run(
        format("train configs/gpt-tiny.yaml --overwrite --set run.dir={} "
               "--set run.threads={} --set run.kernel_table={}",
               path("run"), threads, table));
  }
  bool printed(const std::string& part) const { return text_.find(part) != std::string::npos; }

  fs::path dir_;
  std::string text_;
};

constexpr const char* quick = "--threads 1 --seconds 0.001";

TEST_F(Bench, no_share_above_100_percent_is_shown_as_one) {
  ASSERT_EQ(run(format("bench kernels configs/gpt-tiny.yaml {}", quick)), 0) << text_;
  EXPECT_TRUE(printed("above 100%: operands that stay in a cache")) << text_;
  for (const test::Match& share : test::Pattern(" ([0-9]+)%").all_in(text_))
    EXPECT_LE(std::stoi(share[1]), 100) << text_;
}

TEST_F(Bench, a_machine_is_measured_and_its_file_is_shown) {
  const std::string file = path("machine.yaml");
  ASSERT_EQ(run(format("bench machine --quick --ranks 2 -o {}", file)), 0) << text_;
  EXPECT_TRUE(printed("2 ranks on 1 host") && printed("64 squared") && printed("triad") &&
              printed("an instruction:") && printed("reduce_scatter") && printed("spread"))
      << text_;
  ASSERT_EQ(run("machines " + file), 0) << text_;
  EXPECT_TRUE(printed("machine: Measured: ") && printed("all_to_all")) << text_;
}

TEST_F(Bench, a_machine_is_measured_with_the_kernels_of_a_step) {
  const std::string file = path("machine.yaml");
  ASSERT_EQ(run(format("bench machine configs/gpt-tiny.yaml --quick --ranks 2 -o {}", file)), 0)
      << text_;
  EXPECT_TRUE(printed(" kernel calls of the steps: ")) << text_;
  ASSERT_EQ(run("machines " + file), 0) << text_;
  EXPECT_TRUE(printed("times as long as by rates") && printed("\ncontract ") &&
              printed("\nattention "))
      << text_;
  ASSERT_EQ(run("simulate configs/gpt-tiny.yaml --machine " + file), 0) << text_;
}

TEST_F(Bench, a_machine_is_measured_by_the_processes_of_a_launcher) {
  const std::string file = path("machine.yaml");
  const std::string command = format(
      "mpirun -np 2 --oversubscribe --bind-to none --allow-run-as-root {} bench machine "
      "--quick --job -o {} > {} 2>&1",
      FOURFOLD_BINARY, file, path("printed"));
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(path("printed"));
  const std::string text = read_file(path("printed"));
  EXPECT_NE(text.find("2 ranks on 1 host"), std::string::npos) << text;
  EXPECT_EQ(text.find("an instruction:"), text.rfind("an instruction:")) << "one rank prints";
  ASSERT_EQ(run("machines " + file), 0) << text_;
  EXPECT_TRUE(printed("all_reduce")) << text_;
}

TEST_F(Bench, options_that_a_machine_does_not_take_are_refused) {
  EXPECT_EQ(run("bench machine --quick --job"), 2);
  EXPECT_TRUE(printed("--job measures the processes of a launcher, and none started this one"))
      << text_;
  EXPECT_EQ(run("bench machine --quick -o /nowhere/machine.yaml"), 6);
  EXPECT_TRUE(printed("the folder /nowhere is not there") && !printed("products")) << text_;
  EXPECT_EQ(run("bench machine --quick --dtype fp32"), 2);
  EXPECT_TRUE(printed("machine measures ranks on CPUs")) << text_;
  EXPECT_EQ(run("bench machine --quick --set data.seq_length=8"), 2);
  EXPECT_TRUE(printed("machine takes --set beside a CONFIG alone")) << text_;
  EXPECT_EQ(run("bench machine nowhere.yaml --quick"), 2);
  EXPECT_TRUE(printed("nowhere.yaml")) << text_;
  EXPECT_EQ(run("bench machine configs/paper/gpt-80b.yaml --quick"), 5);
  EXPECT_TRUE(printed("the step of the configuration takes ") && printed("fewer layers")) << text_;
  EXPECT_EQ(run("bench copy --quick"), 2);
  EXPECT_TRUE(printed("--ranks and --quick go with machine or collectives, --job with these"))
      << text_;
  EXPECT_EQ(run("bench machine --job --ranks 2"), 2);
  EXPECT_TRUE(printed("--job takes its ranks from the launcher")) << text_;
}

TEST_F(Bench, collectives_of_all_ranks_and_of_each_axis_stand_beside_a_machines_links) {
  ASSERT_EQ(run("bench collectives --quick --grid 2x1x1x2 --machine perlmutter-40gb"), 0) << text_;
  EXPECT_TRUE(printed("4 ranks on 1 host: threads of one process; beside ")) << text_;
  // Kind, group, ranks, stride.
  for (const char* line :
       {"\nall_reduce +world +4 +1 ", "\nreduce_scatter +x +2 +1 ", "\nall_to_all +data +2 +2 ",
        "\nsend +data +2 +2 ", "\nall_gather +data +2 +2 .*[0-9]%"})
    EXPECT_TRUE(test::Pattern(line).is_in(text_)) << line << text_;
  EXPECT_FALSE(test::Pattern("\nall_reduce +[yz] ").is_in(text_)) << text_;
  EXPECT_TRUE(printed("GB/s: what each rank sends, if its group is a ring")) << text_;
}

TEST_F(Bench, collectives_are_json_of_kinds_sizes_and_links) {
  ASSERT_EQ(run("bench collectives --grid 4x1x1x2 --kind all_reduce,send --sizes 1KiB,4000B "
                "--seconds 0.001 --machine perlmutter-40gb --format json"),
            0)
      << text_;
  const Json json = parse_json(text_, "printed");
  EXPECT_EQ(json.find("ranks")->as_integer(), 8);
  EXPECT_EQ(json.find("hosts")->as_integer(), 1);
  EXPECT_EQ(json.find("carried_by")->as_string(), "threads of one process");
  EXPECT_EQ(json.find("machine")->as_string(), "perlmutter-40gb");
  const std::vector<Json>& results = json.find("results")->items();
  ASSERT_EQ(results.size(), 3U * 2 * 2);  // world, x and data; two kinds; two sizes
  const machine::Cluster machine = machine::load_cluster("perlmutter-40gb");
  for (const Json& result : results) {
    const double seconds = result.find("median_s")->as_double();
    const auto bytes = static_cast<double>(result.find("bytes")->as_integer());
    const std::int64_t ranks = result.find("ranks")->as_integer(),
                       stride = result.find("stride")->as_integer();
    EXPECT_GT(seconds, 0);
    const bool is_send = result.find("kind")->as_string() == "send";
    const double share =
        is_send ? 1 : 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    EXPECT_DOUBLE_EQ(result.find("ring_bytes_per_s")->as_double(), share * bytes / seconds);
    EXPECT_DOUBLE_EQ(result.find("link_bytes_per_s")->as_double(),
                     machine::axis_bytes_per_s(machine, {ranks, stride}));
  }
  EXPECT_EQ(results[0].find("group")->as_string(), "world");
  EXPECT_EQ(results[0].find("ranks")->as_integer(), 8);
  EXPECT_EQ(results[0].find("bytes")->as_integer(), 1024);
  EXPECT_EQ(results[11].find("group")->as_string(), "data");
  EXPECT_EQ(results[11].find("stride")->as_integer(), 4);
  EXPECT_EQ(results[11].find("bytes")->as_integer(), 4000);
}

TEST_F(Bench, an_axis_of_all_ranks_is_the_group_of_all_and_no_machine_is_null) {
  ASSERT_EQ(run("bench collectives --quick --ranks 2 --grid 1x2x1x1 --kind send --format json"), 0)
      << text_;
  const Json json = parse_json(text_, "printed");
  const std::vector<Json>& results = json.find("results")->items();
  ASSERT_EQ(results.size(), 5U);
  EXPECT_EQ(results[0].find("group")->as_string(), "world, y");
  EXPECT_EQ(results[0].find("link_bytes_per_s")->kind(), Json::Kind::null);
}

TEST_F(Bench, collectives_are_measured_between_the_processes_of_a_launcher) {
  const std::string command = format(
      "mpirun -np 2 --oversubscribe --bind-to none --allow-run-as-root {} bench collectives --job "
      "--quick --grid 1x1x2x1 > {} 2>&1",
      FOURFOLD_BINARY, path("printed"));
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(path("printed"));
  const std::string text = read_file(path("printed"));
  EXPECT_TRUE(test::Pattern("2 ranks on 1 host: Open MPI").is_in(text)) << text;
  EXPECT_TRUE(test::Pattern("\nall_to_all +world, z +2 +1 ").is_in(text)) << text;
  EXPECT_EQ(text.find("GB/s: what"), text.rfind("GB/s: what")) << "one rank prints";
}

TEST_F(Bench, a_job_that_does_not_fit_the_grid_ends_with_one_message) {
  const std::string command = format(
      "mpirun -np 2 --oversubscribe --bind-to none --allow-run-as-root {} bench collectives --job "
      "--quick --grid 2x2x1x1 > {} 2>&1",
      FOURFOLD_BINARY, path("printed"));
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  const std::string text = read_file(path("printed"));
  const std::string message = "the grid has 4 ranks, and there are 2; start 4";
  EXPECT_NE(text.find(message), std::string::npos) << text;
  EXPECT_EQ(text.find(message), text.rfind(message)) << text;
}

TEST_F(Bench, collectives_that_make_no_sense_are_refused_with_what_would) {
  const auto refused = [&](const std::string& words, int code, const std::string& part) {
    EXPECT_EQ(run("bench " + words), code) << text_;
    EXPECT_TRUE(printed(part)) << text_;
  };
  refused("collectives --grid 2x2", 2, "--grid 2x2: expected the sizes of x, y, z and data");
  refused("collectives --grid 2x0x1x1", 2, "expected the sizes of x, y, z and data");
  refused("collectives --grid 2x2x1x1 --ranks 2", 2, "the grid has 4 ranks, and there are 2");
  refused("collectives --ranks 1", 2, "collectives need two ranks or more");
  refused("collectives --grid 64x64x1x1", 2, "are more than the 1024 that are threads");
  refused("collectives --sizes 3", 2, "--sizes 3: expected sizes from 4 bytes to 4.00 GiB");
  refused("collectives --kind broadcast", 2, "broadcast");
  refused("collectives --machine nowhere", 2, "nowhere");
  refused("collectives --ranks 2 --machine nowhere.yaml", 2, "nowhere.yaml");
  refused("collectives configs/gpt-tiny.yaml", 2, "leave CONFIG, --set, --dtype and --threads out");
  refused("collectives --device cuda", 2, "start them with mpirun or srun and say --job");
  refused("collectives --job", 2, "--job measures the processes of a launcher");
  refused("collectives -o x.yaml", 2, "--output goes with gemm, kernels or machine");
  refused("machine --grid 2x1x1x1", 2, "--grid, --kind, --sizes and --machine go with collectives");
}

TEST_F(Bench, tensors_pass_between_meshes_of_rank_threads) {
  ASSERT_EQ(run("bench reshard --bytes 64KiB --seconds 0.001"), 0) << text_;
  for (int number = 1; number <= 9; ++number)
    EXPECT_TRUE(printed(format("\ncase {}", number))) << text_;
  EXPECT_TRUE(printed("20 ranks") && printed("all right") && printed("none sent")) << text_;
  ASSERT_EQ(run("bench reshard --from S0R --from-mesh 2x1 --to RS1 --to-mesh 1x3 --shape 5,7 "
                "--strategy broadcast,signal --seconds 0.001 --format json"),
            0)
      << text_;
  const Json json = parse_json(text_, "printed");
  EXPECT_EQ(json.find("ranks")->as_integer(), 5);
  const std::vector<Json>& results = json.find("results")->items();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].find("strategy")->as_string(), "broadcast");
  EXPECT_EQ(results[0].find("unit_tasks")->as_integer(), 6);
  EXPECT_EQ(results[0].find("wrong_elements")->as_integer(), 0);
  EXPECT_EQ(results[0].find("bytes_planned")->as_integer(), 4 * 5 * 7);
  EXPECT_EQ(results[0].find("bytes_counted")->as_integer(), 4 * 5 * 7);
}

TEST_F(Bench, tensors_pass_between_meshes_of_processes) {
  const std::string command = format(
      "mpirun -np 5 --oversubscribe --bind-to none --allow-run-as-root {} bench reshard --job "
      "--from RR --from-mesh 1x2 --to S01R --to-mesh 1x3 --shape 64,64 --seconds 0.001 "
      "--no-turns > {} 2>&1",
      FOURFOLD_BINARY, path("printed"));
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(path("printed"));
  const std::string text = read_file(path("printed"));
  EXPECT_NE(text.find("all right"), std::string::npos) << text;
  EXPECT_EQ(text.find("pair    broadcast"), text.rfind("pair    broadcast")) << "one rank prints";
}

TEST_F(Bench, plans_of_meshes_are_printed_without_ranks) {
  ASSERT_EQ(run("bench reshard --case 4 --strategy broadcast --bytes 2GiB --plan"), 0) << text_;
  EXPECT_TRUE(printed("64 unit tasks by broadcast, ordered by best") &&
              printed("2,147,483,648 bytes between hosts"))
      << text_;
}

TEST_F(Bench, a_latency_within_a_host_is_in_the_plan) {
  // The only message is within a host of two receivers: the chain passes it on there.
  const auto planned_s = [&](const std::string& latency) {
    EXPECT_EQ(run("bench reshard --from RR --from-mesh 1x1 --to RR --to-mesh 1x2 --shape 64,64 "
                  "--strategy broadcast --chunks 1 --plan --format json --inside-latency " +
                  latency),
              0)
        << text_;
    const Json json = parse_json(text_, "plan");
    return json.find("plans")->items().at(0).find("planned_s")->as_double();
  };
  EXPECT_NEAR(planned_s("'1 ms'") - planned_s("'0 s'"), 1e-3, 1e-9);
}

TEST_F(Bench, meshes_that_do_not_fit_are_refused_with_what_would) {
  EXPECT_EQ(run("bench reshard --from S0"), 2);
  EXPECT_TRUE(printed("a pair of meshes needs --from-mesh too")) << text_;
  EXPECT_EQ(run("bench reshard --from S0 --from-mesh 2x2 --to R --to-mesh 2x1 --shape 4,4"), 2);
  EXPECT_TRUE(printed("sharding spec 'S0': it has 1 dims, and the tensor [4, 4] has 2")) << text_;
  EXPECT_EQ(run("bench reshard --case 1 --from S0"), 2);
  EXPECT_TRUE(printed("--case is a pair of meshes already")) << text_;
  EXPECT_EQ(run("bench reshard --bytes 7"), 2);
  EXPECT_TRUE(printed("expected a size of at least 2048 bytes")) << text_;
  EXPECT_EQ(run("bench reshard --chunks 0"), 2);
  EXPECT_TRUE(printed("expected auto, or a number from 1 to 1000")) << text_;
  EXPECT_EQ(run("bench reshard --rate fast"), 2);
  EXPECT_TRUE(printed("--rate 'fast': expected a rate")) << text_;
  for (const char* wrong : {"--rate '1e-305 B/s'", "--inside '1e-305 B/s'", "--latency '1e300 s'",
                            "--inside-latency '1e300 s'"}) {
    EXPECT_EQ(run(format("bench reshard {}", wrong)), 2) << wrong;
    EXPECT_NE(text_.find(std::string_view(wrong).ends_with(" s'") ? "at most 1000000 s"
                                                                  : "at least 1 B/s"),
              text_.npos)
        << text_;
  }
  EXPECT_EQ(run("bench copy --case 3"), 2);
  EXPECT_TRUE(printed("go with reshard alone")) << text_;
  EXPECT_EQ(run("bench reshard --threads 2"), 2);
  EXPECT_TRUE(printed("leave CONFIG and other options out")) << text_;
  EXPECT_EQ(run("bench reshard --job"), 2);
  EXPECT_TRUE(printed("--job measures the processes of a launcher")) << text_;
}

TEST_F(Bench, a_table_goes_from_measuring_to_a_run_that_keeps_a_copy) {
  const std::string table = path("kernels.yaml");
  ASSERT_EQ(run(format("bench kernels configs/gpt-tiny.yaml {} -o {}", quick, table)), 0) << text_;
  EXPECT_TRUE(printed("GFLOP/s") && printed("GB/s") && printed("layer_norm")) << text_;
  const std::string measured = read_file(table);
  EXPECT_NE(measured.find("threads: 1, layout: nn"), std::string::npos) << measured;
  const std::string text = test::by_own_loops(measured);
  write_file_atomic(table, text);
  ASSERT_EQ(run(format("program configs/gpt-tiny.yaml --set run.threads=1 "
                       "--set run.kernel_table={}",
                       table)),
            0)
      << text_;
  EXPECT_TRUE(printed("by vector") && !printed("by onednn") && !printed("by openblas")) << text_;
  ASSERT_EQ(train(table, 1), 0) << text_;
  EXPECT_EQ(read_file(path("run") + "/kernels.yaml"), text);
}

/// Most matrices have one shape, so that few products are measured.
constexpr const char* few_shapes =
    "configs/gpt-tiny.yaml --set model.vocab_size=32 --set model.ffn_hidden_size=32";

/// Steps enough for a table of the run's own, of which two are done.
const std::string long_run =
    format("train {} --set train.steps=200000000 --set run.threads=1 --stop-at", few_shapes);

TEST_F(Bench, a_long_run_measures_once_and_keeps_its_table) {
  const std::string sets = format("--set run.dir={}", path("run"));
  const std::string cache = format("XDG_CACHE_HOME={}", path("cache"));
  ASSERT_EQ(run_with(cache, format("{} 2 {}", long_run, sets)), 0) << text_;
  EXPECT_TRUE(printed("each by its fastest kernel: ") && printed(" measured now in ")) << text_;
  const std::string kept = read_file(path("run") + "/kernels.yaml");
  EXPECT_NE(kept.find("threads: 1, layout: nn"), std::string::npos) << kept;

  // The cache says otherwise now: the run goes on as it began, another run does not.
  const std::string known = cached();
  write_file_atomic(known, test::by_own_loops(read_file(known)));
  ASSERT_EQ(run_with(cache, format("{} 4 {}", long_run, sets)), 0) << text_;
  EXPECT_TRUE(printed("as this run began:")) << text_;
  EXPECT_EQ(read_file(path("run") + "/kernels.yaml"), kept);
  ASSERT_EQ(run_with(cache, format("{} 2 --set run.dir={}", long_run, path("other"))), 0) << text_;
  EXPECT_TRUE(printed(" known from earlier starts") && !printed(" measured now in ")) << text_;
  const std::string of_other = read_file(path("other") + "/kernels.yaml");
  EXPECT_EQ(of_other, test::by_own_loops(of_other));

  write_file_atomic(known, "version: 1\ncpu: x");
  ASSERT_EQ(run_with(cache, format("{} 2 --overwrite {}", long_run, sets)), 0) << text_;
  EXPECT_TRUE(printed("passed over, and written anew: ") && printed("measured now")) << text_;
  EXPECT_NE(read_file(known).find("threads: 1, layout: nn"), std::string::npos);
}

TEST_F(Bench, a_short_run_and_a_dry_one_take_the_built_in_table) {
  const std::string cache = format("XDG_CACHE_HOME={}", path("cache"));
  ASSERT_EQ(run_with(cache, format("train configs/gpt-tiny.yaml --set run.dir={}", path("run"))), 0)
      << text_;
  EXPECT_FALSE(printed("each by its fastest kernel")) << text_;
  EXPECT_FALSE(fs::exists(path("run") + "/kernels.yaml"));
  ASSERT_EQ(run_with(cache, format("{} 2 --dry-run --set run.dir={}", long_run, path("dry"))), 0)
      << text_;
  EXPECT_FALSE(fs::exists(path("cache")));
}

TEST_F(Bench, a_step_is_the_mean_of_the_last_five_of_ten_batches) {
  const std::string cache = format("XDG_CACHE_HOME={}", path("cache")),
                    builtin = "configs/gpt-tiny.yaml --set run.kernel_table=builtin";
  for (const std::string grid : {"", " --set parallel.tensor.x=2"}) {
    ASSERT_EQ(run_with(cache, format("bench step {} --threads 1 --format json{}", builtin, grid)),
              0)
        << text_;
    const Json json = parse_json(text_, "bench step");
    const auto number = [&](const char* key) { return json.find(key)->as_double(); };
    const auto& batches = json.find("batches_s")->items();
    ASSERT_EQ(batches.size(), 10U);
    double sum = 0;
    for (std::size_t i = 5; i < 10; ++i) sum += batches[i].as_double();
    EXPECT_DOUBLE_EQ(number("step_s"), sum / 5);
    EXPECT_LE(number("least_s"), number("median_s"));
    EXPECT_LE(number("median_s"), number("most_s"));
    // 128 tokens a step.
    EXPECT_DOUBLE_EQ(number("items_per_s"), 128 / number("step_s"));
    EXPECT_EQ(json.find("exposed_s") != nullptr, !grid.empty());
    EXPECT_GT(number("instruction_s"), 0);
    EXPECT_LT(number("instruction_s") * number("instructions"), number("step_s"));
  }
  ASSERT_EQ(run_with(cache, format("bench step {} --threads 1", builtin)), 0) << text_;
  EXPECT_TRUE(printed(" ms a step, the mean of the last 5 (median ")) << text_;
  EXPECT_EQ(run("bench step"), 2);
  EXPECT_TRUE(printed("step needs a CONFIG")) << text_;
  EXPECT_EQ(run("bench step configs/gpt-tiny.yaml --dtype fp64"), 2);
  EXPECT_TRUE(printed("set run.device and precision.compute in place of")) << text_;
  EXPECT_EQ(run("bench kernels configs/gpt-tiny.yaml --format json"), 2);
  EXPECT_TRUE(printed("--format goes with step")) << text_;
}

TEST_F(Bench, products_in_bf16_have_lines_that_a_run_in_bf16_takes) {
  const std::string table = path("kernels.yaml");
  // All kernels of a step: attention too, which several compute and no line may be about.
  for (const char* what : {"gemm", "kernels"}) {
    ASSERT_EQ(
        run(format("bench {} configs/gpt-tiny.yaml {} --dtype bf16 -o {}", what, quick, table)), 0)
        << text_;
    EXPECT_NE(read_file(table).find("{dtype: bf16, threads: 1, layout: nn"), std::string::npos);
    EXPECT_EQ(train(table + " --set precision.compute=bf16", 1), 0) << what << text_;
    EXPECT_TRUE(test::Pattern("kernels +cpu, 1 thread a rank").is_in(text_)) << text_;
  }
}

TEST_F(Bench, a_wrong_table_is_one_clear_error) {
  const std::string table = path("kernels.yaml");
  ASSERT_EQ(run(format("bench gemm configs/gpt-tiny.yaml {} -o {}", quick, table)), 0) << text_;
  EXPECT_EQ(train(table, 2), 2);
  EXPECT_TRUE(printed("has no line for 2 threads")) << text_;
  EXPECT_EQ(train(path("none.yaml"), 1), 2);
  EXPECT_TRUE(printed("none.yaml'; expected auto, builtin, or a file of")) << text_;
  std::string text = read_file(table);
  text.replace(text.find("cpu: \"") + 6, 0, "another ");
  write_file_atomic(table, text);
  EXPECT_EQ(train(table, 1), 2);
  EXPECT_TRUE(printed("was measured on 'another ")) << text_;
  write_file_atomic(table, "version: 7\n");
  EXPECT_EQ(train(table, 1), 2);
  EXPECT_TRUE(printed("kernels.yaml:1:10: error: version is '7', expected 1")) << text_;
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Bench, attention_and_ceilings_print_a_line_each) {
  ASSERT_EQ(run(format("bench attention configs/gpt-tiny.yaml {} --dtype fp64", quick)), 0)
      << text_;
  EXPECT_TRUE(printed("attention ") && printed("attention_gradient") && !printed("gelu")) << text_;
  ASSERT_EQ(run(format("bench copy {}", quick)), 0) << text_;
  EXPECT_TRUE(printed("triad GB/s")) << text_;
  EXPECT_EQ(run("bench all"), 2);
  EXPECT_EQ(run("bench copy -o x.yaml"), 2);
  EXPECT_EQ(run("bench kernels --device cuda --dtype fp64"), 2);
  EXPECT_TRUE(printed("choose bf16, fp32, tf32")) << text_;
  EXPECT_EQ(run("bench kernels --dtype tf32"), 2);
  EXPECT_TRUE(printed("choose bf16, fp32, fp64")) << text_;
  EXPECT_EQ(run("bench gemm configs/gpt-tiny.yaml --device cuda"), 2);
  EXPECT_EQ(run("bench gemm --device cuda -o x.yaml"), 2);
}

}  // namespace
}  // namespace fourfold
