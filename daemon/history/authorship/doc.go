// Package authorship finds which agent and task a commit, a line and an open of a file are of: it joins
// the output of git blame, the history of a branch and the receipts of a workspace.
//
// It runs no git and opens no file itself: package worktree does. What git prints and what receipts contain
// was written by agents, so every parser refuses what it does not know, and all texts and lists are bounded.
// It changes nothing, and holds no lock.
package authorship
