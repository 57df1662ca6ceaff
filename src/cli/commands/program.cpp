#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/prepare_to_look.h"
#include "cli/shared_options.h"
#include "compile/passes.h"
#include "job/config_source.h"
#include "job/job.h"
#include "program/text.h"
#include "screen/print.h"
#include "show/summary.h"

namespace fourfold::cli {
namespace {

struct ProgramArguments {
  job::ConfigSource config;
  std::string program = "train", after;
  std::int64_t rank = 0;
  bool of_job = false, is_of_specification = false;
  std::vector<std::string> without;
  std::optional<std::int64_t> ranks;
};

std::vector<std::string> pass_names(bool is_optional_only) {
  std::vector<std::string> names;
  for (const compile::Pass& pass : compile::passes())
    if (pass.is_optional || !is_optional_only) names.emplace_back(pass.name);
  return names;
}

void list_options(OptionList& options, ProgramArguments& given) {
  add_config_options(options, given.config);
  options.add("--program", given.program, "init, train, evaluate, prefill, decode, digest, or all",
              {.shows_default = true});
  options.add("--rank", given.rank, "The rank whose program is printed",
              {.shows_default = true, .within = Least{0}});
  options.add("--job", given.of_job, "Print all programs of all ranks, those of like ranks once",
              {.excludes = "--program,--rank"});
  options.add("--after", given.after,
              "Print what this pass of the compiler has made, for the first rank",
              {.one_of = join(pass_names(false), ","), .excludes = "--job,--rank"});
  options.add("--without", given.without, "Leave out this pass of the compiler; may be repeated",
              {.takes_one = true, .one_of = join(pass_names(true), ",")});
  options.add(
      "--specification", given.is_of_specification,
      "Print what the job must compute: the step of all samples on one rank, from the model's "
      "graphs alone",
      {.excludes = "--program,--rank,--job,--after,--without"});
  add_ranks_option(options, given.ranks);
}

/// The texts of what a pass makes, one for each program of the bundle.
class AfterPass {
 public:
  explicit AfterPass(std::string_view pass) : pass_(pass) {}

  void see(const compile::Pass& pass, const compile::Form& form,
           const compile::PassContext& context) {
    if (pass.name == pass_)
      texts_.emplace_back(compile::kind_of(form), compile::to_text(form, context.plan));
  }
  const std::vector<std::pair<op::ProgramKind, std::string>>& texts() const { return texts_; }

 private:
  std::string pass_;
  std::vector<std::pair<op::ProgramKind, std::string>> texts_;
};

[[noreturn]] void fail_program(const std::string& program, const program::Bundle& bundle) {
  std::string names;
  for (const auto& p : bundle.programs) names += format("{}, ", op::to_string(p.kind));
  throw UserError(ExitCode::bad_config,
                  format("there is no program '{}'; choose one of {}all", program, names));
}

/// An optional pass that was left out has made nothing.
void print_after(const ProgramArguments& arguments, const AfterPass& after,
                 const program::Bundle& bundle) {
  if (std::ranges::find(arguments.without, arguments.after) != arguments.without.end())
    throw UserError(
        ExitCode::bad_config,
        format("--after {0} and --without {0} exclude each other; leave one of them out",
               arguments.after));
  const auto asked = op::parse_program_kind(arguments.program);
  std::string text;
  for (const auto& [kind, made] : after.texts())
    if (arguments.program == "all" || asked == kind) text += (text.empty() ? "" : "\n") + made;
  if (text.empty()) fail_program(arguments.program, bundle);
  screen::print_text(text);
}

void program(const ProgramArguments& arguments) {
  const config::Config config = job::load_config(arguments.config);
  if (arguments.is_of_specification)
    return screen::print_text(program::to_text(specify_to_look(config, arguments.ranks)));
  AfterPass after(arguments.after);
  compile::PassOptions passes{arguments.without, {}};
  if (!arguments.after.empty())
    passes.observer = [&](const auto& pass, const auto& form, const auto& context) {
      after.see(pass, form, context);
    };
  const job::Job job = prepare_to_look(config, arguments.ranks, passes);
  if (const std::string uncounted = show::uncounted_workspace(job); !uncounted.empty())
    screen::tell("kernels: " + uncounted);
  if (!arguments.after.empty()) return print_after(arguments, after, job.bundle());
  if (arguments.of_job) return screen::print_text(program::to_text(job.programs));
  const program::Bundle bundle = job::bundle_of(job, arguments.rank);
  if (arguments.program == "all") return screen::print_text(program::to_text(bundle));
  const auto asked = op::parse_program_kind(arguments.program);
  const program::Program* found = asked ? bundle.find(*asked) : nullptr;
  if (found == nullptr) fail_program(arguments.program, bundle);
  screen::print_text(program::to_text(*found));
}

}  // namespace

void add_program(Commands& commands) {
  commands.add({"program", After{"trace"}, "Print the compiled step as text",
                "program configs/gpt-quickstart.yaml --program all --rank 1"},
               list_options, program);
}

}  // namespace fourfold::cli
