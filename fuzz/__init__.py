"""Structure-aware fuzzing of the library, guided by the coverage of its kernels.

build       Kernels with sanitizers and coverage, in build/fuzz
coverage    Which edges of the kernels were taken
findings    What was found: signatures, minimal inputs, the directory
merge       Adds the inputs of a run to the corpus
limits      What an execution may cost
model       A Mosaic file in parts, and how it is put together with right checksums and offsets
mutate      Mutations
report      Executions, coverage and findings as text and JSON
run         Starts workers, and again when they crash
seeds       The inputs that fuzzing starts from
tables      Random tables and writer options
targets     What is fuzzed, and what must hold
theirs      The Apache implementation in a child process
tokens      The decompressed parts of a file as lists of tokens
worker      The process that fuzzes
"""
