"""Points and moments by chaospy, for simulations that the caller makes.

Reads one JSON document. `{"bounds": [[low, high], ..], "order": k}` prints the points and weights of a sparse Gauss grid;
with `"points"`, `"weights"` and `"values"` (one list per point) it prints mean and standard deviation of the fitted expansion.
"""

import json
import sys
import time

import chaospy
import numpy

request = json.load(sys.stdin)
joint = chaospy.J(*[chaospy.Uniform(low, high) for low, high in request["bounds"]])
begin = time.perf_counter()
if "values" not in request:
    points, weights = chaospy.generate_quadrature(request["order"], joint, rule="gaussian", sparse=True)
    answer = {"points": points.T.tolist(), "weights": weights.tolist()}
else:
    expansion = chaospy.generate_expansion(request["order"], joint)
    points = numpy.array(request["points"]).T
    model = chaospy.fit_quadrature(expansion, points, numpy.array(request["weights"]), numpy.array(request["values"]))
    answer = {"mean": chaospy.E(model, joint).tolist(), "std": chaospy.Std(model, joint).tolist()}
answer["seconds"] = time.perf_counter() - begin
json.dump(answer, sys.stdout)
