within Modelica.Blocks;
package Types "Choices that blocks offer"
  type Init = enumeration(
      NoInit "Start values are guesses",
      SteadyState "Derivatives of the states are zero",
      InitialState "States start at their start values",
      InitialOutput "Outputs start at their start values") "How a block starts";
  type InitPID = enumeration(
      NoInit "Start values are guesses",
      SteadyState "Derivatives of the states are zero",
      InitialState "States start at their start values",
      InitialOutput "Outputs start at their start values",
      DoNotUse_InitialIntegratorState "Only the integrator starts at its start value") "How a controller starts, in older models";
  type SimpleController = enumeration(
      P "Proportional",
      PI "Proportional and integral",
      PD "Proportional and derivative",
      PID "Proportional, integral and derivative") "Parts of a controller";
  type LimiterHomotopy = enumeration(
      NoHomotopy "The limiter as it is",
      Linear "Without limits",
      UpperLimit "At the upper limit",
      LowerLimit "At the lower limit") "Simpler limiter to start from";
end Types;
