// Package rules has no code: its folders decide what a program may do and how it gets an answer: permissions of tools,
// questions to people, the tasks an agent may delegate, the steps it reports, and the directories it gets.
//
// They are pure: they open no file and start nothing.
package rules
