// Before the first paint, so that nothing flashes: the theme that was chosen last. Not a module: modules run later.
(function () {
  'use strict';
  try {
    const theme = localStorage.getItem('sluice.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch (e) {
    // storage may be forbidden: the system's theme
  }
})();
