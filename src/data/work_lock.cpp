#include "data/work_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"

namespace fourfold::data {

WorkLock::WorkLock(std::string folder, Lock lock) : folder_(std::move(folder)) {
  if (::mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST) fail_writing(folder_, errno);
  descriptor_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor_.is_open()) fail_writing(folder_, errno);
  if (lock == nullptr) lock = ::flock;
  int error = 0;
  do error = lock(descriptor_.number(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  while (error == EINTR);
  if (error == EWOULDBLOCK)
    throw UserError(
        ExitCode::output_in_use,
        format("{}: another process works there; wait for it, or choose another name", folder_));
  if (error != 0)
    note_ = format(
        "{}: this file system gives no lock ({}); see that no other process writes there "
        "at the same time",
        folder_, std::generic_category().message(error));
}

WorkLock::~WorkLock() {
  ::rmdir(folder_.c_str());
}

}  // namespace fourfold::data
