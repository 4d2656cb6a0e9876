// The decision whether drafts are worth their time at present.
#pragma once

#include <cstdint>

namespace deepinfer {

// Modelled tokens per millisecond of the ways to run the next decode steps.
struct DraftValues {
    double with_drafts = 0.0;     // best number of rows at the acceptance expected, draft pass included
    double without_drafts = 0.0;  // one row a sequence, no draft pass
    double at_best = 0.0;         // like with_drafts, if every draft were accepted
    double probe_steps = 0.0;     // what a probe costs, in steps without drafts
};

// What a decode step does about drafts.
struct DraftAction {
    bool verifies = true;       // drafts that are there are verified; else dropped
    bool makes = true;          // the draft model runs behind the step
    bool is_probe = false;      // only to learn: one step that makes drafts, and the next that verifies them
    bool keeps_context = true;  // the target's rows leave the draft model its context
};

// Drafts are made for as long as they pay, with a little inertia, since every change wastes a draft pass. While they do
// not, they are tried again in at most 1% of all steps and of the time, and only if they could pay at all. Nor does the
// draft model get context then, but for the steps before a probe or a new beginning.
class DraftPolicy {
  public:
    static constexpr int64_t kProbeInterval = 200;  // least steps from one probe's beginning to the next; it takes two
    static constexpr double kProbeShare = 0.005;    // most of the time that probes take
    static constexpr double kInertia = 0.01;        // gain or loss that is too small for a change

    // num_lead_steps: decode steps in a row that leave context before drafts are made again.
    explicit DraftPolicy(int64_t num_lead_steps = 0) : num_lead_steps_(num_lead_steps), num_kept_(num_lead_steps) {}

    // Decides one decode step; to be asked once for each, but for those whose times are only to be learnt.
    DraftAction decide(const DraftValues& values);
    // What decide would find without probing; changes nothing.
    bool pays(const DraftValues& values) const;
    bool is_on() const { return is_on_; }
    // Whether the newest step left context.
    bool keeps_context() const { return num_kept_ > 0 || is_on_; }

  private:
    DraftAction decide_off(const DraftValues& values, bool ends_probe, bool is_wanted);

    int64_t num_lead_steps_;
    int64_t num_kept_;  // newest steps in a row that left context; as if many had before the first one
    bool is_on_ = true;
    bool is_probing_ = false;  // the last step made drafts for a probe
    int64_t num_steps_since_probe_ = 0;
};

}  // namespace deepinfer
