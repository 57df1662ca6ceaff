// Compares pieces of work on a machine whose speed changes while they are timed: a host gives a
// virtual core now a whole core, now half of one.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace fourfold::measure {

/// Seconds that so many calls of a contender take, which are made now.
using TimeCalls = std::function<double(std::size_t contender, int calls)>;

/// Seconds of a call of each contender, for about `seconds_each` of each and at least three turns.
/// In a turn all make a call, or a millisecond of calls, one after another, so that most turns meet
/// one speed of the machine. The first has its least time; each other one that times the median,
/// over the turns, of its time by the first's. (The least times of all would compare one's lucky
/// moment with another's.) One that takes 1.5 times as long as the best after three turns has no
/// more of them.
std::vector<double> take_turns(std::size_t contenders, double seconds_each, const TimeCalls& time);

}  // namespace fourfold::measure
