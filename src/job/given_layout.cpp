#include "job/given_layout.h"

#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "job/settle.h"
#include "plan/layout_text.h"

namespace fourfold::job {

std::optional<plan::GivenLayout> given_layout(const config::Config& config) {
  if (config.layout.empty() || config.plan.layout) return config.plan.layout;
  if (!file_exists(config.layout))
    throw UserError(ExitCode::bad_config,
                    format("parallel.layout: there is no file '{}'; expected a file of `fourfold "
                           "plan CONFIG -o FILE`{}",
                           config.layout, places_of({"parallel.layout"}, config.origins)));
  return plan::GivenLayout{config.layout, read_file(config.layout, ExitCode::bad_config)};
}

std::string layout_text(const PlannedRun& run) {
  const std::vector<Mesh>& meshes = run.plan.meshes;
  if (meshes.size() > 1)
    throw UserError(ExitCode::bad_config,
                    format("a layout is of one grid, and the model is cut into {} stages; set "
                           "parallel.pipeline.stages = 1",
                           meshes.size()));
  const auto layout = plan::make_layout(run.graphs, run.settled.plan(), meshes.front());
  return plan::to_text(std::get<plan::Layout>(layout), run.graphs.at(op::ProgramKind::train),
                       meshes.front());
}

}  // namespace fourfold::job
