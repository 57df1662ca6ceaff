// The options of a command as rows: a name, the value that it fills, words for help, and bounds.
// Not how a command line is read: parse.cpp turns rows into options of a library, and no other file
// knows that library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comm/launcher.h"

namespace fourfold::cli {

/// What an option fills. A bool is a flag, which takes no value; a list takes several values.
using Target =
    std::variant<bool*, int*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*,
                 std::optional<std::uint64_t>*, std::optional<double>*, std::optional<std::string>*,
                 std::vector<std::string>*, std::vector<std::int64_t>*>;

/// Bounds of a number.
struct Whole {
  std::int64_t least, most;
};
struct Real {
  double least, most;
};
struct Least {
  int least;
};

/// What else is to be said of an option. Names and words stand in one text, separated by commas.
struct OptionFacts {
  bool is_required = false;
  bool shows_default = false;   // help says the value that the target has before the line is read
  bool takes_one = false;       // a list grows by one value each time that the option is given
  int count = 0;                // so many values; 0: as the target says
  char separator = 0;           // of the values in one word; 0: none
  std::string value_name = {};  // in help; empty: the type
  std::string one_of = {};      // the words that it takes; empty: any
  std::variant<std::monostate, Whole, Real, Least> within = {};
  std::string (*fault)(const std::string& value) = nullptr;  // empty text: the value is good
  std::string excludes = {}, needs = {};           // names of options that stand before this one
  std::vector<std::string> (*offers)() = nullptr;  // what completion offers, if any word is taken
};

/// One option, or one word that has a place of its own in the line if its name begins with no dash.
struct Option {
  std::string names;  // "--step", "-o,--output", "RUN"
  Target target;
  std::string meaning;
  OptionFacts facts;
  bool* is_given;  // becomes true if the line has the option; or null
};

/// Who calls: the words of the line, with the program's name, and the variables of the environment.
struct Caller {
  std::vector<std::string> words;
  comm::Variable variable;
};

/// The options of one command, in the order of its help.
class OptionList {
 public:
  explicit OptionList(const Caller& caller) : caller_(caller) {}

  /// `value` is filled when the line is read, and must live until then.
  template <class Value>
  void add(const char* names, Value& value, std::string meaning, OptionFacts facts = {}) {
    options_.push_back({names, &value, std::move(meaning), std::move(facts), is_given_});
  }
  /// Becomes true if the line has one of the options that are added from now on.
  void tell(bool& is_given) { is_given_ = &is_given; }
  const std::vector<Option>& options() const { return options_; }
  const Caller& caller() const { return caller_; }

 private:
  const Caller& caller_;
  std::vector<Option> options_;
  bool* is_given_ = nullptr;
};

}  // namespace fourfold::cli
