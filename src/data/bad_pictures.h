// What is done about pictures that cannot be used, and the list of those that were left out. Not
// how a picture is found to be bad: each format says that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/left_out.h"

namespace fourfold::data {

struct BadPictures {
  /// The most pictures that are left out when a set is opened; one more is an error. None: the
  /// first bad picture is an error.
  std::optional<std::int64_t> skip;
  bool operator==(const BadPictures&) const = default;
};

/// "stop" or "skip:N", N from 0 on; nothing for any other text.
std::optional<BadPictures> bad_pictures_of(std::string_view text);

/// Applies a policy to the bad pictures of a set, in the order in which they are found.
class BadPictureList {
 public:
  /// `set` is the name of the set in messages.
  BadPictureList(BadPictures policy, std::string set);

  bool skips() const { return policy_.skip.has_value(); }
  /// Notes a bad picture, to be left out. Errors: UserError(bad_data) "PLACE: WHAT; ADVICE" where
  /// the policy is to stop, and one that names the first bad pictures where there are too many.
  void add(const std::string& place, const std::string& what, const std::string& advice);
  const LeftOut& left_out() const { return left_out_; }

 private:
  BadPictures policy_;
  std::string set_;
  LeftOut left_out_;
};

}  // namespace fourfold::data
