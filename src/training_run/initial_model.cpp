#include "training_run/initial_model.h"

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/load_model.h"
#include "rundir/trained_model.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::training_run {

void check_initial_model(const job::Job& job, const data::Source& source) {
  const std::string& from = job.settled.config().init_from;
  if (from.empty()) return;
  const rundir::TrainedModel model = rundir::open_trained_model(from, std::nullopt);
  checkpoint::require_fit(*model.parameters, checkpoint::JobState(job.programs));
  if (source.tokenizer() == nullptr) return;
  const auto tokenizer =
      tokenizer::tokenizer_from_text(model.text_tokenizer(), model.tokenizer_place);
  // Numbers mean what the data means by them.
  if (tokenizer->name() != "number" && source.tokenizer()->name() != "number" &&
      tokenizer->to_text() != source.tokenizer()->to_text())
    throw UserError(
        ExitCode::bad_data,
        format("{}: the model of run.init_from was trained with another tokenizer ({} of {} "
               "tokens) than that of the data ({} of {}); set data.tokenizer to the former, with "
               "the same characters or files",
               from, tokenizer->name(), tokenizer->vocab_size(), source.tokenizer()->name(),
               source.tokenizer()->vocab_size()));
}

void load_initial_model(const job::Job& job, run::Executor& executor) {
  const rundir::TrainedModel model =
      rundir::open_trained_model(job.settled.config().init_from, std::nullopt);
  checkpoint::load_model(*model.parameters, executor.bundle().at(op::ProgramKind::train),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
}

}  // namespace fourfold::training_run
