#include "job/specify.h"

#include "specification/specify.h"

namespace fourfold::job {

program::Job specify(const config::Settled& settled, Graphs which) {
  return specification::specify(build_serial_graphs(settled, which));
}

}  // namespace fourfold::job
