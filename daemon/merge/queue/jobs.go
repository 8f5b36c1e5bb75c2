package queue

import "polis/daemon/merge"

func jobsOf(os []Outcome) []Job {
	jobs := make([]Job, len(os))
	for i, o := range os {
		jobs[i] = o.Job
	}
	return jobs
}

func requests(jobs []Job) []merge.Request {
	reqs := make([]merge.Request, len(jobs))
	for i, j := range jobs {
		reqs[i] = j.Request
	}
	return reqs
}

// without are the jobs that are not done.
func without(jobs []Job, done []Outcome) []Job {
	over := map[uint64]bool{}
	for _, o := range done {
		over[o.Job.Entry.Seq] = true
	}
	var left []Job
	for _, j := range jobs {
		if !over[j.Entry.Seq] {
			left = append(left, j)
		}
	}
	return left
}
