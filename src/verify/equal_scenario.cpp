#include "verify/equal_scenario.h"

#include <algorithm>
#include <limits>

#include "base/format.h"
#include "verify/equal_inputs.h"

namespace fourfold::verify {
namespace {

using op::ProgramKind;

class Scenarios {
 public:
  Scenarios(const std::vector<CommonProgram>& programs, const ResidueJob& specification,
            std::uint64_t keys)
      : programs_(programs), specification_(specification), keys_(keys) {}

  std::vector<Scenario> make() {
    if (find(ProgramKind::init)) {
      list_.emplace_back();
      add(ProgramKind::init, "init", std::nullopt);
      add(ProgramKind::digest, "digest, after init", std::nullopt);
    }
    list_.emplace_back();
    add_training();
    list_.emplace_back();
    add(ProgramKind::evaluate, "evaluate", Start::late);
    add_times(ProgramKind::bound);
    add_text();
    add_times(ProgramKind::denoise);
    add(ProgramKind::digest, "digest", Start::late);
    std::erase_if(list_, [](const Scenario& scenario) { return scenario.empty(); });
    return std::move(list_);
  }

 private:
  std::optional<std::size_t> find(ProgramKind kind) const {
    const auto place = std::ranges::find(programs_, kind, &CommonProgram::kind);
    if (place == programs_.end()) return std::nullopt;
    return static_cast<std::size_t>(place - programs_.begin());
  }
  const ResidueProgram& prepared(std::size_t program) const {
    return specification_.prepared(0, programs_[program].specification_place);
  }

  /// Adds a step, if there is such a program. The step, for changing it.
  ScenarioStep& add(ProgramKind kind, std::string text, std::optional<Start> start) {
    const auto program = find(kind);
    if (!program) return unused_;
    // Numbers that have nothing to do with one another: of a step, a sample, a seed. Steps that
    // follow one another are of both parities.
    ++number_;
    op::StepBlock step;
    step.step = 6 + number_;
    step.seed = 0x5DEECE66D + 3 * keys_;
    step.lr = 0.0078125 * static_cast<double>(100 + 7 * number_);
    step.first_sample = 1000 + 37 * number_;
    list_.back().push_back({*program, step, std::move(text), start, true});
    return list_.back().back();
  }
  void add_training() {
    const auto train = [&](std::string_view how, Start start) -> ScenarioStep& {
      return add(ProgramKind::train, format("train, {}", how), start);
    };
    train("step 1", Start::early);
    train("step 2", Start::late);
    if (keys_ != 0) return;
    train("from moments that are not finite in places", Start::damaged);
    train("after updates that were not finite in places", Start::counted);
    train("without labels", Start::late).has_labels = false;
    train("with a learning rate that is not finite", Start::late).step.lr =
        std::numeric_limits<double>::quiet_NaN();
  }
  /// The last time, one in between and the first one.
  void add_times(ProgramKind kind) {
    const auto program = find(kind);
    if (!program) return;
    const std::int64_t times = bound_of_field(prepared(*program), "step.index");
    std::vector<std::int64_t> list = {times - 1, times / 2, 0};
    list.erase(std::unique(list.begin(), list.end()), list.end());
    for (const std::int64_t time : list)
      add(kind, format("{}, time {}", op::to_string(kind), time), Start::late).step.index =
          static_cast<std::int32_t>(time);
  }
  /// As many tokens as there is room for, and a text that leaves room for two more where it can.
  void add_text() {
    const auto prefill = find(ProgramKind::prefill), decode = find(ProgramKind::decode);
    std::int64_t tokens = 1;
    if (prefill) {
      const std::int64_t most = bound_of_field(prepared(*prefill), "step.index");
      const auto read = [&](std::int64_t count) {
        add(ProgramKind::prefill, format("prefill of {}", count), Start::late).step.index =
            static_cast<std::int32_t>(count - 1);
      };
      tokens = std::max<std::int64_t>(1, most - 2);
      if (tokens < most) read(most);
      read(tokens);
    }
    if (!decode) return;
    const std::int64_t positions = bound_of_field(prepared(*decode), "step.position");
    for (int token = 1; token <= 2 && tokens < positions; ++token, ++tokens)
      add(ProgramKind::decode, format("decode, token {}", token), Start::late).step.position =
          static_cast<std::int32_t>(tokens);
  }

  const std::vector<CommonProgram>& programs_;
  const ResidueJob& specification_;
  std::uint64_t keys_;
  std::int64_t number_ = 0;
  std::vector<Scenario> list_;
  ScenarioStep unused_;
};

}  // namespace

std::vector<Scenario> scenarios_of(const std::vector<CommonProgram>& programs,
                                   const ResidueJob& specification, std::uint64_t keys) {
  return Scenarios(programs, specification, keys).make();
}

std::int64_t most_runs_of(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::train:
      return 6;
    case ProgramKind::bound:
    case ProgramKind::denoise:
      return 3;
    case ProgramKind::prefill:
    case ProgramKind::decode:
    case ProgramKind::digest:
      return 2;
    case ProgramKind::init:
    case ProgramKind::evaluate:
      return 1;
  }
  return 1;
}

}  // namespace fourfold::verify
