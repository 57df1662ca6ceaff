// A job that is compiled in two steps: each program is completed once, and it is the same job.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "compile/fit.h"
#include "program/text.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::compile {
namespace {

/// A target whose kernels need scratch, as those of a table may.
machine::Target with_table() {
  machine::Target target = GridSetup::target();
  target.choices.insert(target.choices.begin(),
                        {.op = "contract", .dtype = std::nullopt, .implementation = "tabled"});
  target.workspace_bytes = [](const std::string& implementation, const op::Op&, op::Shapes, DType) {
    return implementation == "tabled" ? std::int64_t{1} << 12 : 0;
  };
  return target;
}

/// How often each pass has run, by program.
struct Counts {
  std::map<std::string, std::map<op::ProgramKind, int>> of_pass;
  PassOptions options() {
    return {.observer = [this](const Pass& pass, const Form& form, const PassContext&) {
      ++of_pass[std::string(pass.name)][kind_of(form)];
    }};
  }
  int most(const std::string& pass) const {
    int most = 0;
    for (const auto& [kind, count] : of_pass.at(pass)) most = std::max(most, count);
    return most;
  }
};

class CompilationTest : public testing::Test {
 protected:
  void SetUp() override {
    setup_.plan.checkpointing.is_auto = true;
    setup_.gpt.num_layers = 4;
    setup_.set_grid({.x = 2, .z = 2, .data = 1});
    model_ = setup_.graphs();
    plan_ = setup_.solved(model_);
  }
  std::int64_t needed() const {
    const program::Job job = compile(model_, plan_, with_table());
    return job.classes[0].persistent_bytes + job.classes[0].transient_bytes;
  }
  /// Looks at the training programs, as one who chooses kernels does, and finishes.
  Fitted finished(std::optional<std::int64_t> most_bytes, Counts& counts) const {
    const machine::Target target = GridSetup::target();
    Compilation compilation(model_, plan_, target, counts.options());
    EXPECT_EQ(compilation.programs(op::ProgramKind::train).size(), 1U);
    auto made =
        finish_to_fit(compilation, model_, plan_, with_table(), most_bytes, counts.options());
    return std::get<Fitted>(std::move(made));
  }

  GridSetup setup_;
  graph::ModelGraphs model_;
  plan::Plan plan_;
};

TEST_F(CompilationTest, in_two_steps_makes_the_job_of_one_and_each_program_once) {
  Counts counts;
  const Fitted made = finished(std::nullopt, counts);
  EXPECT_EQ(made.fit, plan::Fit{});
  EXPECT_EQ(made.job, compile(model_, plan_, with_table()));
  EXPECT_NE(program::to_text(made.job).find("tabled"), std::string::npos);
  for (const Pass& pass : passes()) EXPECT_EQ(counts.most(std::string(pass.name)), 1) << pass.name;
}

TEST_F(CompilationTest, memory_that_is_enough_changes_nothing_and_costs_nothing) {
  Counts counts;
  const Fitted made = finished(needed(), counts);
  EXPECT_EQ(made.fit, plan::Fit{});
  EXPECT_EQ(made.job, compile(model_, plan_, with_table()));
  for (const Pass& pass : passes()) EXPECT_EQ(counts.most(std::string(pass.name)), 1) << pass.name;
}

TEST_F(CompilationTest, memory_that_is_too_small_is_seen_before_a_program_is_complete) {
  Counts counts;
  const std::int64_t bytes = needed() - 1;
  const Fitted made = finished(bytes, counts);
  EXPECT_EQ(made.fit.memory_limit, bytes);
  EXPECT_LE(made.job.classes[0].persistent_bytes + made.job.classes[0].transient_bytes, bytes);
  EXPECT_EQ(counts.most("insert_waits"), 1);
  plan_.memory_limit = bytes;
  Counts stated;
  EXPECT_EQ(finished(std::nullopt, stated).job, made.job) << "as if the limit had been stated";
  EXPECT_EQ(stated.most("insert_waits"), 1);
}

TEST_F(CompilationTest, a_plan_is_not_changed_by_what_is_chosen_of_it) {
  const plan::Plan before = plan_;
  Counts counts;
  const plan::Fit fit = finished(needed() - 1, counts).fit;
  EXPECT_EQ(plan_, before);
  EXPECT_NE(plan::with_fit(plan_, fit), before);
}

}  // namespace
}  // namespace fourfold::compile
