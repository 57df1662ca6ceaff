// Fourfold itself, in which one instruction of one rank writes a NaN in each step of training, for
// tests of what is said of it then. Which one follows from the number in PLANT; it is told on
// standard error.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/command_line.h"
#include "job/device.h"
#include "run/cpu.h"
#include "support/planted_nan.h"

namespace fourfold {
namespace {

/// Passes all on, and plants its fault once programs are there.
class Planting : public run::Backend {
 public:
  explicit Planting(std::unique_ptr<run::Backend> inner) : inner_(std::move(inner)) {}
  void bind(const program::Bundle& bundle) override {
    inner_->bind(bundle);
    const program::Program& train = bundle.at(op::ProgramKind::train);
    const auto number = std::stoull(std::getenv("PLANT"));
    const auto world = static_cast<std::uint64_t>(train.world);
    if (number % world != train.rank.index()) return;
    const std::vector<std::size_t> places = test::places_for_a_nan(train);
    const std::size_t place = places[number / world % places.size()];
    auto* backend = dynamic_cast<run::CpuBackend*>(inner_.get());
    require(backend != nullptr, "a fault is planted on a CPU");
    backend->inject({op::ProgramKind::train, place, 0, 0});
    std::fprintf(stderr, "planted: rank %zu, instruction %zu.\n", train.rank.index(), place);
  }
  void begin(run::ProgramId program, const op::StepBlock& step, run::Feeder* feeder) override {
    inner_->begin(program, step, feeder);
  }
  void issue(run::ProgramId program, std::size_t instruction) override {
    inner_->issue(program, instruction);
  }
  void finish() override { inner_->finish(); }
  op::ResultBlock result() override { return inner_->result(); }
  void trace_next(std::span<trace::Interval> intervals) override { inner_->trace_next(intervals); }
  bool watch(Watch watch) override { return inner_->watch(std::move(watch)); }
  run::MathWaits math_waits() const override { return inner_->math_waits(); }
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) override {
    return inner_->bytes(buffer, parity);
  }

 private:
  std::unique_ptr<run::Backend> inner_;
};

}  // namespace
}  // namespace fourfold

// What the linker calls in place of job::make_backend, and what it was (--wrap).
namespace planted {
using Make = std::unique_ptr<fourfold::run::Backend>(const fourfold::job::Job&,
                                                     fourfold::comm::World*, const std::string&,
                                                     fourfold::measure::CudaForThreads*);
#define MAKE_BACKEND                                                                            \
  "_ZN8fourfold3job12make_backendERKNS0_3JobEPNS_4comm5WorldERKNSt7__cxx1112basic_stringIcSt11" \
  "char_traitsIcESaIcEEEPNS_7measure14CudaForThreadsE"
Make real __asm__("__real_" MAKE_BACKEND);
Make wrapped __asm__("__wrap_" MAKE_BACKEND);
std::unique_ptr<fourfold::run::Backend> wrapped(const fourfold::job::Job& job,
                                                fourfold::comm::World* world,
                                                const std::string& data_name,
                                                fourfold::measure::CudaForThreads* shared) {
  return std::make_unique<fourfold::Planting>(real(job, world, data_name, shared));
}
}  // namespace planted

int main(int argc, char** argv) {
  return fourfold::cli::run(argc, argv, [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  });
}
