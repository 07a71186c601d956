package stats

import "math"

// A Split tells where the scatter of case differences comes from, and so whether more trials or more cases would help.
type Split struct {
	MeanDiff float64 // of the case rates, head minus base
	VarDiff  float64 // sample variance of the case differences
	Chance   float64 // part of it that chance inside cases makes; it shrinks with trials
	Cases    float64 // rest: cases differ in how they take the change; it shrinks with cases alone. At least 0
	Within   float64 // variance of one trial of base and one of head together, mean over cases
}

// VarianceSplit needs two cases with two trials on each side; false else.
func VarianceSplit(base, head []Tally) (Split, bool) {
	if len(base) < 2 {
		return Split{}, false
	}
	var s Split
	d := make([]float64, len(base))
	for i := range base {
		x, errBase := FlakeOf(base[i])
		y, errHead := FlakeOf(head[i])
		if errBase != nil || errHead != nil {
			return Split{}, false
		}
		d[i] = head[i].Rate() - base[i].Rate()
		s.Within += x.Within + y.Within
		s.Chance += x.Within/float64(base[i].N) + y.Within/float64(head[i].N)
	}
	n := float64(len(d))
	s.Within, s.Chance = s.Within/n, s.Chance/n
	sd := StdDev(d)
	s.MeanDiff, s.VarDiff = Mean(d), sd*sd
	s.Cases = math.Max(0, s.VarDiff-s.Chance)
	return s, true
}

// A Design is a plan whose scatter is known: cases, trials a side of each, and the parts of the variance.
type Design struct {
	Cases  int
	Trials int
	Spread float64 // variance between case differences that stays however many trials there are: Split.Cases
	Within float64 // variance of one trial of base and one of head together: Split.Within
}

func (d Design) variance() float64 { return d.Spread + d.Within/float64(d.Trials) }

// MDE is the smallest effect that the plan would find by the normal law, which is too hopeful under about 20 cases: MDE the
// function is exact there. (Miller 2024.)
func (d Design) MDE(alpha, power float64) float64 {
	return (zQuantile(1-alpha) + zQuantile(2*power-1)) * math.Sqrt(d.variance()/float64(d.Cases))
}

// CasesFor is the number of cases at which the plan would find an effect, by the same law. Cases of d is not looked at.
func (d Design) CasesFor(effect, alpha, power float64) int {
	z := zQuantile(1-alpha) + zQuantile(2*power-1)
	return int(math.Ceil(z * z * d.variance() / (effect * effect)))
}
