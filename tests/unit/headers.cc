// Owns the precompiled header of the unit tests.
int main() { return 0; }
