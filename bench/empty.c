/* SPDX-License-Identifier: Apache-2.0 */
/* A program that does nothing: what starting and ending a process takes at least. */

int main(void)
{
    return 0;
}
