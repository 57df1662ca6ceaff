// The least makespan by trying all orders and senders, without any of what the searches know.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "reshard/schedule.h"

namespace fourfold::reshard {

class Exhaustive {
 public:
  explicit Exhaustive(const std::vector<HostTask>& tasks) : tasks_(tasks) {}

  double least_s() {
    std::vector<bool> is_done(tasks_.size(), false);
    visit(is_done, 0, {}, {}, 0);
    return least_s_;
  }

 private:
  using Times = std::map<HostId, double>;

  void visit(std::vector<bool>& is_done, std::size_t count, const Times& out, const Times& in,
             double makespan_s) {
    if (makespan_s >= least_s_) return;  // the only branches left out
    if (count == tasks_.size()) {
      least_s_ = makespan_s;
      return;
    }
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      if (is_done[task]) continue;
      is_done[task] = true;
      for (const HostId sender : tasks_[task].senders) {
        Times new_out = out, new_in = in;
        double start = new_out[sender];
        for (const HostId host : tasks_[task].receivers) {
          start = std::max(start, new_in[host]);
          if (host != tasks_[task].receivers.back()) start = std::max(start, new_out[host]);
        }
        const double end = start + tasks_[task].seconds;
        new_out[sender] = end;
        for (const HostId host : tasks_[task].receivers) {
          new_in[host] = end;
          if (host != tasks_[task].receivers.back()) new_out[host] = end;
        }
        visit(is_done, count + 1, new_out, new_in, std::max(makespan_s, end));
      }
      is_done[task] = false;
    }
  }

  const std::vector<HostTask>& tasks_;
  double least_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace fourfold::reshard
