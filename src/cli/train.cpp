#include "training_run/train.h"

#include "cli/commands.h"
#include "comm/termination.h"

namespace fourfold::cli {

void train(const training_run::TrainArguments& arguments) {
  comm::ignore_broken_pipes();  // who reads the output may leave
  training_run::train(arguments);
}

}  // namespace fourfold::cli
