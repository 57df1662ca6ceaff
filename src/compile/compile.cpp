#include "compile/compile.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/keep_rounded.h"
#include "compile/persistent_region.h"

namespace fourfold::compile {
namespace {

/// The programs of a rank, as far as they are made.
struct Unfinished {
  Rank rank;
  std::vector<Form> forms;
};

/// Compiles for ranks of one mesh. What is the same for all of them is made once, but where
/// somebody looks on: an observer sees all passes of each rank.
class MeshCompiler {
 public:
  MeshCompiler(const graph::ModelGraphs& model, const plan::Plan& plan, MeshId mesh,
               const machine::Target& target, const Transfers& transfers,
               const Departures& departures, const PassOptions& options)
      : plan_(plan),
        target_(target),
        transfers_(transfers),
        departures_(departures),
        options_(options),
        persistent_(persistent_region(
            model, plan, mesh,
            keeps_rounded() ? rounded_weights(model, plan, mesh) : std::set<std::string>())) {
    for (const graph::Graph& graph : model.graphs)
      if (graph.mesh == mesh && (!options.only || graph.kind == *options.only))
        graphs_.push_back({&graph, std::nullopt});
  }

  /// No rank comes after the last one: what was made for all is used up, to need no more memory.
  Unfinished begin(Rank rank, bool is_last) {
    Unfinished made{rank, {}};
    for (Entry& entry : graphs_) made.forms.push_back(begin_graph(entry, rank, is_last));
    return made;
  }
  /// Chooses kernels and addresses. Returns how many bytes the rank needs.
  std::int64_t place(Unfinished& made, const machine::Target& target) const {
    std::int64_t most = 0;
    for (Form& form : made.forms) {
      form = run_passes(Stretch::kernels, std::move(form), context(made.rank, target), options_);
      most = std::max(most, std::get<program::Program>(form).transient_bytes);
    }
    return persistent_.bytes + most;
  }
  program::Bundle complete(Unfinished made, const machine::Target& target) const {
    program::Bundle bundle = empty();
    for (Form& form : made.forms)
      add(bundle,
          run_passes(Stretch::complete, std::move(form), context(made.rank, target), options_));
    return bundle;
  }
  /// All of it, one program after another.
  program::Bundle compile_for(Rank rank, bool is_last, const machine::Target& target) {
    program::Bundle bundle = empty();
    for (Entry& entry : graphs_) {
      Form form = begin_graph(entry, rank, is_last);
      for (const Stretch stretch : {Stretch::kernels, Stretch::complete})
        form = run_passes(stretch, std::move(form), context(rank, target), options_);
      add(bundle, std::move(form));
    }
    return bundle;
  }

 private:
  struct Entry {
    const graph::Graph* graph = nullptr;
    std::optional<Form> form;  // what its own passes made of it
  };

  bool keeps_rounded() const {
    return std::ranges::find(options_.without, "keep_rounded") == options_.without.end();
  }
  PassContext context(Rank rank, const machine::Target& target) const {
    return {plan_, target, persistent_, transfers_, departures_, rank};
  }
  Form begin_graph(Entry& entry, Rank rank, bool is_last) const {
    if (!entry.form || options_.observer)
      entry.form = run_passes(Stretch::graph, *entry.graph, context(rank, target_), options_);
    Form form = is_last ? *std::exchange(entry.form, std::nullopt) : *entry.form;
    return run_passes(Stretch::program, std::move(form), context(rank, target_), options_);
  }
  program::Bundle empty() const {
    program::Bundle bundle;
    bundle.persistent_bytes = persistent_.bytes;
    return bundle;
  }
  static void add(program::Bundle& bundle, Form form) {
    bundle.programs.push_back(std::get<program::Program>(std::move(form)));
    bundle.transient_bytes =
        std::max(bundle.transient_bytes, bundle.programs.back().transient_bytes);
  }

  const plan::Plan& plan_;
  const machine::Target& target_;
  const Transfers& transfers_;
  const Departures& departures_;
  const PassOptions& options_;
  PersistentRegion persistent_;
  std::vector<Entry> graphs_;
};

/// Ranks of a mesh that send and receive the same parts of their tensors in the same order, from
/// and to whomever. `first` is the one that is compiled.
struct Class {
  Rank first;
  std::vector<program::Channel> channels;
};

/// What a rank does along an edge: its messages, each with the number of its peer among those of
/// the edge, in the order in which they are first met.
struct Exchange {
  std::size_t edge = 0;
  std::vector<std::tuple<bool, std::size_t, reshard::Slice, bool>> messages;
  bool operator==(const Exchange&) const = default;
};

/// By edge in which the rank takes part. Ranks of one class have equal ones.
std::vector<Exchange> exchanges_of(const plan::Plan& plan, const Transfers& transfers, Rank rank) {
  std::vector<Exchange> exchanges;
  for (std::size_t edge = 0; edge < plan.edges.size(); ++edge) {
    const std::vector<Message>& messages = transfers.messages(edge, rank);
    if (messages.empty()) continue;
    Exchange exchange{edge, {}};
    std::vector<Rank> peers;
    for (const Message& message : messages) {
      const auto place = std::ranges::find(peers, message.peer);
      exchange.messages.emplace_back(message.sends, place - peers.begin(), message.slice,
                                     message.is_turn);
      if (place == peers.end()) peers.push_back(message.peer);
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

/// The peers of a rank of the class, in the order of its channels.
std::vector<Rank> peers_of(const plan::Plan& plan, const Transfers& transfers, const Class& its,
                           Rank rank) {
  std::vector<Rank> peers;
  for (const program::Channel& channel : its.channels) {
    const auto [edge, is_turn] = edge_of_tag(channel.tag, plan);
    const std::vector<Message>& messages = transfers.messages(edge, its.first);
    const auto first = std::ranges::find_if(messages, [&](const Message& message) {
      return message.sends == channel.sends && message.peer == channel.peer &&
             message.is_turn == is_turn;
    });
    const auto place = static_cast<std::size_t>(first - messages.begin());
    peers.push_back(transfers.messages(edge, rank).at(place).peer);
  }
  return peers;
}

/// The ranks of one mesh, by class, and what compiles for them.
struct MeshClasses {
  MeshClasses(const graph::ModelGraphs& model, const plan::Plan& plan, MeshId mesh,
              const machine::Target& target, const Transfers& transfers,
              const Departures& departures, const PassOptions& options)
      : compiler(model, plan, mesh, target, transfers, departures, options) {
    std::vector<std::vector<Exchange>> exchanges_of_class;
    for (const Rank rank : plan.meshes[mesh.index()].ranks) {
      std::vector<Exchange> exchanges = exchanges_of(plan, transfers, rank);
      const auto place = std::ranges::find(exchanges_of_class, exchanges);
      class_of.push_back(static_cast<std::size_t>(place - exchanges_of_class.begin()));
      if (place != exchanges_of_class.end()) continue;
      exchanges_of_class.push_back(std::move(exchanges));
      classes.push_back({rank, {}});
    }
  }

  MeshCompiler compiler;
  std::vector<Class> classes;         // in the order of their first ranks
  std::vector<std::size_t> class_of;  // by place on the mesh
  std::vector<Unfinished> begun;      // by class
};

}  // namespace

struct Compilation::Classes {
  Classes(const graph::ModelGraphs& model, const plan::Plan& its_plan,
          const machine::Target& target, PassOptions its_options)
      : plan(its_plan), options(std::move(its_options)), transfers(plan), departures(plan) {
    for (std::size_t mesh = 0; mesh < plan.meshes.size(); ++mesh)
      meshes.push_back(std::make_unique<MeshClasses>(model, plan, MeshId(mesh), target, transfers,
                                                     departures, options));
  }

  bool is_begun() const { return !meshes.front()->begun.empty(); }
  void begin() {
    for (const auto& mesh : meshes)
      for (const Class& its : mesh->classes)
        mesh->begun.push_back(mesh->compiler.begin(its.first, &its == &mesh->classes.back()));
  }
  /// True if no rank needs more.
  bool place(const machine::Target& target, std::int64_t most_bytes) {
    std::int64_t most = 0;
    for (const auto& mesh : meshes)
      for (Unfinished& made : mesh->begun)
        most = std::max(most, mesh->compiler.place(made, target));
    return most <= most_bytes;
  }
  program::Job job(
      const std::function<program::Bundle(MeshClasses& mesh, std::size_t number)>& bundle) {
    program::Job job;
    job.ranks.resize(static_cast<std::size_t>(plan.world));
    for (std::size_t m = 0; m < meshes.size(); ++m) {
      MeshClasses& mesh = *meshes[m];
      const std::size_t first_class = job.classes.size();
      for (std::size_t number = 0; number < mesh.classes.size(); ++number) {
        job.classes.push_back(bundle(mesh, number));
        mesh.classes[number].channels = program::channels_of(job.classes.back());
      }
      auto place = mesh.class_of.cbegin();
      for (const Rank rank : plan.meshes[m].ranks) {
        job.ranks[rank.index()] = {static_cast<std::uint32_t>(first_class + *place),
                                   peers_of(plan, transfers, mesh.classes[*place], rank)};
        ++place;
      }
    }
    return job;
  }

  const plan::Plan& plan;
  PassOptions options;
  Transfers transfers;
  Departures departures;
  std::vector<std::unique_ptr<MeshClasses>> meshes;
};

Compilation::Compilation(const graph::ModelGraphs& model, const plan::Plan& plan,
                         const machine::Target& target, PassOptions options)
    : classes_(std::make_unique<Classes>(model, plan, target, std::move(options))) {}
Compilation::~Compilation() = default;
Compilation::Compilation(Compilation&&) noexcept = default;

std::vector<const program::Program*> Compilation::programs(op::ProgramKind kind) {
  if (!classes_->is_begun()) classes_->begin();
  std::vector<const program::Program*> programs;
  for (const auto& mesh : classes_->meshes)
    for (const Unfinished& made : mesh->begun)
      for (const Form& form : made.forms)
        if (kind_of(form) == kind) programs.push_back(&std::get<program::Program>(form));
  return programs;
}

std::optional<program::Job> Compilation::finish(const machine::Target& target,
                                                std::optional<std::int64_t> most_bytes) {
  Classes& classes = *classes_;
  if (!classes.is_begun() && !most_bytes)
    return classes.job([&](MeshClasses& mesh, std::size_t number) {
      const bool is_last = number + 1 == mesh.classes.size();
      return mesh.compiler.compile_for(mesh.classes[number].first, is_last, target);
    });
  if (!classes.is_begun()) classes.begin();
  if (most_bytes && !classes.place(target, *most_bytes)) return std::nullopt;
  return classes.job([&](MeshClasses& mesh, std::size_t number) {
    Unfinished made = std::move(mesh.begun[number]);
    if (!most_bytes) mesh.compiler.place(made, target);
    return mesh.compiler.complete(std::move(made), target);
  });
}

program::Job compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                     const machine::Target& target, const PassOptions& options) {
  return *Compilation(model, plan, target, options).finish(target);
}

}  // namespace fourfold::compile
