// The table of a run whose run.kernel_table is `auto`.
#include "job/find_kernels.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "job/settle.h"
#include "measure/kernel_table.h"
#include "support/pattern.h"
#include "support/tables_of_kernels.h"

namespace fourfold::job {
namespace {

namespace fs = std::filesystem;

config::Config config_of(std::int64_t steps, const std::string& kernel_table = "auto",
                         int threads = 1) {
  config::Config config;
  config.device = "cpu";
  config.threads = threads;
  config.kernel_table = kernel_table;
  config.gpt = {.num_layers = 1,
                .num_attention_heads = 2,
                .hidden_size = 16,
                .ffn_hidden_size = 64,
                .max_position_embeddings = 8,
                .vocab_size = 24};
  config.plan.global_batch_size = 2;
  config.data.seq_length = 8;
  config.sample.tokens = 0;
  config.train.steps = steps;
  return config;
}

config::Settled run_of(std::int64_t steps, const std::string& kernel_table = "auto",
                       int threads = 1) {
  return settle(config_of(steps, kernel_table, threads), {});
}

bool wants(const config::Config& config) {
  return wants_kernels(Preparation(settle(config, {})));
}

class FindKernels : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  FoundKernels find(const Preparation& run, const std::string& kept = "",
                    double limit_s = 0.6) const {
    return find_kernels(run, {kept, (folder_ / "cache").string(), limit_s});
  }
  std::string cache_file() const { return fs::directory_iterator(folder_ / "cache")->path(); }

  fs::path folder_ = fs::temp_directory_path() / format("fourfold-kernels-{}", getpid());
  Preparation run_{run_of(1)};
};

TEST(FindKernelsRule, long_runs_with_the_fast_kernels_of_a_cpu_want_a_table) {
  constexpr std::int64_t many = 1'000'000'000;
  EXPECT_TRUE(wants(config_of(many)));
  EXPECT_FALSE(wants(config_of(10)));
  EXPECT_FALSE(wants(config_of(many, "builtin")));
  config::Config reference = config_of(many);
  reference.kernels = "reference";
  EXPECT_FALSE(wants(reference));
}

TEST_F(FindKernels, what_was_measured_is_known_to_the_next_start) {
  const FoundKernels first = find(run_);
  EXPECT_NE(first.origin.find(" measured now in "), std::string::npos) << first.origin;
  EXPECT_EQ(first.warnings, std::vector<std::string>{});
  const FoundKernels second = find(run_);
  EXPECT_EQ(second.table, first.table);
  EXPECT_NE(second.origin.find(" known from earlier starts"), std::string::npos) << second.origin;
  EXPECT_EQ(second.origin.find("measured now"), std::string::npos) << second.origin;
  // A run of other shapes takes what both have, and adds what it has alone.
  const Preparation other(run_of(1, "auto", 2));
  const std::string more = find(other).table;
  EXPECT_NE(more.find("threads: 2"), std::string::npos);
  EXPECT_EQ(more.find("threads: 1"), std::string::npos) << "lines that the run has no use for";
  EXPECT_EQ(find(run_).table, first.table);
}

TEST_F(FindKernels, a_job_compiled_with_a_table_computes_by_it) {
  const std::string table = test::by_own_loops(find(run_).table);
  const Job plain = prepare(run_of(1)), job = run_.finish({.kernel_table = table});
  EXPECT_EQ(job.kernel_table, table);
  for (const program::Instruction& instruction :
       job.bundle().at(op::ProgramKind::train).instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    EXPECT_TRUE(compute == nullptr || !op::product_of(compute->op) ||
                compute->implementation == "vector")
        << compute->implementation;
  }
  EXPECT_EQ(job.plan, plain.plan);
}

TEST_F(FindKernels, a_file_that_cannot_be_used_is_passed_over_with_a_line) {
  find(run_);
  const std::string file = cache_file(), good = read_file(file);
  std::string foreign = good;
  foreign.replace(foreign.find("cpu: \"") + 6, 0, "another ");
  const std::string cut = good.substr(0, good.rfind("gflops"));  // within a line
  // Rates that no kernel has.
  const std::string fast = test::Pattern("gflops: [^,}]*").replaced_in(good, "gflops: 1e300");
  ASSERT_NE(fast, good);
  for (const std::string& text : {std::string(), std::string("version: 1"), foreign, cut, fast}) {
    write_file_atomic(file, text);
    const FoundKernels found = find(run_);
    EXPECT_EQ(found.warnings.size(), 1U) << text;
    EXPECT_NE(found.origin.find("measured now"), std::string::npos) << text;
    EXPECT_EQ(find(run_).warnings.size(), 0U) << "written anew";
  }
  // A file that never answers is neither waited for nor replaced.
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(find(run_).warnings.size(), 2U);
  const FoundKernels nowhere = find_kernels(run_, {"", "/proc/none", 0.6});
  ASSERT_EQ(nowhere.warnings.size(), 1U);
  EXPECT_TRUE(nowhere.warnings[0].starts_with("what was measured is not kept"))
      << nowhere.warnings[0];
  EXPECT_NE(nowhere.table, "");
  EXPECT_TRUE(find_kernels(run_, {"", "", 0.6}).warnings.empty());
}

TEST_F(FindKernels, a_run_that_goes_on_keeps_its_table) {
  const std::string kept = (folder_ / "kernels.yaml").string();
  std::string table = find(run_).table;
  table.insert(table.find('\n') + 1, "# kept\n");
  write_file_atomic(kept, table);
  const FoundKernels found = find(run_, kept);
  EXPECT_EQ(found.table, table);
  EXPECT_NE(found.origin.find("as this run began"), std::string::npos) << found.origin;
  // On other threads than it began with it is measured again.
  const FoundKernels other = find(Preparation(run_of(1, "auto", 2)), kept);
  ASSERT_EQ(other.warnings.size(), 1U);
  EXPECT_NE(other.warnings[0].find("has no line for 2 threads"), std::string::npos);
  EXPECT_NE(other.table, table);
}

TEST_F(FindKernels, without_time_the_built_in_table_computes) {
  const FoundKernels found = find(run_, "", 0);
  EXPECT_EQ(found.table, "");
  EXPECT_EQ(found.origin, "");
}

TEST(NamedKernelTable, a_word_that_is_no_file_gets_the_choices) {
  EXPECT_EQ(named_kernel_table("auto"), "");
  EXPECT_EQ(named_kernel_table("builtin"), "");
  for (const std::string wrong : {"", "atuo", "/none.yaml"}) {
    try {
      named_kernel_table(wrong);
      FAIL() << wrong;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_config);
      EXPECT_NE(std::string(error.what()).find("expected auto, builtin, or a file"),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace fourfold::job
