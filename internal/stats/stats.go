// Package stats holds the statistics of evals that no library offers: exact tests and intervals for trials that come in
// cases. A case is a [Tally], passed of scored trials; two arms are two slices of them in the same order of cases.
//
//   - Did the cases change? [StratifiedExact], and [SignFlip] for cases like these; [Holm] where many are asked.
//   - How large is it? [CaseMeanInterval] for one arm, [StratNewcombe] for two, [PairedT] for cases like these.
//   - What could have been found? [MDE], [CasesFor], [TrialsFor], and [VarianceSplit]: buy trials or cases?
//   - Costs, tokens and times, case by case: [MedianOfPairs], [SignedRank]; of one case: [MannWhitney], [Shift].
//   - Can a judge be trusted? [Confusion], [Corrected], [MajorityVote].
//
// It is pure: no clock, no random numbers, equal input gives equal bits. Distributions come from gonum. Every function is
// held against values that other people's software computed (testdata/stats-oracles.json). What a test is good for stands
// in docs/verdicts.md.
package stats
