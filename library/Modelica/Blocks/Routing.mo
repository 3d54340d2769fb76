within Modelica.Blocks;
package Routing "Signals bundled and passed on"
  import Modelica.Blocks.Interfaces;

  model RealPassThrough "A real signal as it is"
    extends Interfaces.SISO;
  equation
    y = u;
  end RealPassThrough;

  model BooleanPassThrough "A Boolean signal as it is"
    extends Interfaces.BooleanSISO;
  equation
    y = u;
  end BooleanPassThrough;

  block RealReplicator "One signal several times"
    extends Interfaces.SIMO;
  equation
    y = fill(u, nout);
  end RealReplicator;

  block Multiplex2 "Two vectors as one"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer n1 = 1 "Length of the first";
    parameter Integer n2 = 1 "Length of the second";
    Interfaces.RealInput u1[n1] "First";
    Interfaces.RealInput u2[n2] "Second";
    Interfaces.RealOutput y[n1 + n2] "Both";
  equation
    y = cat(1, u1, u2);
  end Multiplex2;

  block DeMultiplex2 "One vector as two"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer n1 = 1 "Length of the first";
    parameter Integer n2 = 1 "Length of the second";
    Interfaces.RealInput u[n1 + n2] "Both";
    Interfaces.RealOutput y1[n1] "First";
    Interfaces.RealOutput y2[n2] "Second";
  equation
    u = cat(1, y1, y2);
  end DeMultiplex2;

  block ExtractSignal "Chosen elements of a vector"
    extends Interfaces.MIMO;
    parameter Integer extract[nout] = 1:nout "Which";
  equation
    for i in 1:nout loop
      y[i] = u[extract[i]];
    end for;
  end ExtractSignal;
end Routing;
