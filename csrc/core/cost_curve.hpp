// Measured time of a target step against its number of rows, and of a draft pass against its number of sequences.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

struct CostPoint {
    int64_t size = 0;  // rows of a target step, or sequences of a draft pass
    double ms = 0.0;
};

// A staircase: a step of n rows costs what the smallest measured size >= n costs. Injected or measured, never guessed.
class CostCurve {
  public:
    CostCurve() = default;
    // Throws std::invalid_argument unless sizes are positive and ascend strictly and times are positive.
    explicit CostCurve(std::vector<CostPoint> points);

    bool empty() const { return points_.empty(); }
    const std::vector<CostPoint>& points() const { return points_; }
    // The smallest point with size >= n; nullptr past the end.
    const CostPoint* at(int64_t n) const;
    // Time at n; past the end it grows in proportion from the last point; 0 when the curve is empty.
    double ms(int64_t n) const;

  private:
    std::vector<CostPoint> points_;
};

}  // namespace deepinfer
