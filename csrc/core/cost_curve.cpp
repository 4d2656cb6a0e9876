#include "core/cost_curve.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/message.hpp"

namespace deepinfer {

CostCurve::CostCurve(std::vector<CostPoint> points) : points_(std::move(points)) {
    int64_t previous = 0;
    for (const CostPoint& point : points_) {
        if (point.size <= previous) {
            throw std::invalid_argument(
                message("cost curve: size ", point.size, " after ", previous, "; expected ascending sizes from 1"));
        }
        if (!(point.ms > 0.0) || !std::isfinite(point.ms)) {
            throw std::invalid_argument(
                message("cost curve: ", point.ms, " ms at size ", point.size, "; expected a positive finite time"));
        }
        previous = point.size;
    }
}

const CostPoint* CostCurve::at(int64_t n) const {
    const auto found = std::lower_bound(points_.begin(), points_.end(), n,
                                        [](const CostPoint& point, int64_t size) { return point.size < size; });
    return found == points_.end() ? nullptr : &*found;
}

double CostCurve::ms(int64_t n) const {
    if (points_.empty()) return 0.0;
    if (const CostPoint* point = at(n)) return point->ms;
    const CostPoint& last = points_.back();
    return last.ms * static_cast<double>(n) / static_cast<double>(last.size);
}

}  // namespace deepinfer
