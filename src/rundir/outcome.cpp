#include "rundir/outcome.h"

#include "base/file.h"
#include "base/json.h"

namespace fourfold::rundir {

Outcome::Outcome(const comm::Variable& variable) {
  if (variable) path_ = variable("FOURFOLD_OUTCOME").value_or("");
}

void Outcome::write(const char* state, std::int64_t step, std::int64_t steps) const {
  if (path_.empty()) return;
  write_file_atomic(
      path_,
      Json::object().set("state", state).set("step", step).set("steps", steps).dump() + "\n");
}

}  // namespace fourfold::rundir
