// The decision whether drafts are worth their time at present.
#pragma once

#include <cstdint>

namespace deepinfer {

// Modelled tokens per millisecond of the ways to run the next decode steps.
struct DraftValues {
    double with_drafts = 0.0;     // best number of rows at the acceptance expected, draft pass included
    double without_drafts = 0.0;  // one row a sequence, no draft pass
    double at_best = 0.0;         // like with_drafts, if every draft were accepted
};

// What a decode step does about drafts.
struct DraftAction {
    bool verifies = true;   // drafts that are there are verified; else dropped
    bool makes = true;      // the draft model runs behind the step
    bool is_probe = false;  // only to learn: one step that makes drafts, and the next that verifies them
};

// Drafts are made for as long as they pay, with a little inertia, since every change wastes a draft pass. While they do
// not, they are tried again in at most 1% of all steps, and only if they could pay at all.
class DraftPolicy {
  public:
    static constexpr int64_t kProbeInterval = 200;  // steps from one probe's beginning to the next; a probe takes two
    static constexpr double kInertia = 0.01;        // gain or loss that is too small for a change

    // Decides one decode step; to be asked exactly once for each.
    DraftAction decide(const DraftValues& values);
    // What decide would find without probing; changes nothing.
    bool pays(const DraftValues& values) const;
    bool is_on() const { return is_on_; }

  private:
    bool is_on_ = true;
    bool is_probing_ = false;  // the last step made drafts for a probe
    int64_t num_steps_since_probe_ = 0;
};

}  // namespace deepinfer
