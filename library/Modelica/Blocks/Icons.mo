within Modelica.Blocks;
package Icons "Base classes without content: elsewhere they hold pictures"
  partial block Block "A block of real signals" end Block;
  partial block MultipleBlock "A block of several inputs" end MultipleBlock;
  partial block BooleanBlock "A block of Boolean signals" end BooleanBlock;
  partial block IntegerBlock "A block of integer signals" end IntegerBlock;
  partial block DiscreteBlock "A sampled block" end DiscreteBlock;
  partial block PartialBooleanBlock "A block of Boolean signals" end PartialBooleanBlock;
end Icons;
