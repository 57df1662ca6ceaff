// The residue form of any row of the table. Alone, so that who never proves a job equal does not
// link all forms.
#include "base/error.h"
#include "op/table.h"

namespace fourfold::op {

void compute_residues(const Op& op, const Residues& residues, ResidueTensors all) {
  visit_row(
      [&]<class Row>(const Row& row) {
        if constexpr (requires { row.residue_form(residues, all); })
          row.residue_form(residues, all);
        else
          require(false, "a row that stands for others is computed piece by piece");
      },
      op);
}

}  // namespace fourfold::op
