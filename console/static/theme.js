"use strict";(()=>{try{let e=localStorage.getItem("pgqueue.theme");(e==="light"||e==="dark")&&(document.documentElement.dataset.theme=e)}catch{}})();
